//! Ranks the plays for a load and the capacities of the sites.
