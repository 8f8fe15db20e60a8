//! A playbook out of maps and of others' files; its tables and its page.
