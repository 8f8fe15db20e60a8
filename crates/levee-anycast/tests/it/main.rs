//! Tests on real measurements, each in its own module.
<<<<<<< HEAD
mod playbook;
=======
mod generated;
>>>>>>> main
