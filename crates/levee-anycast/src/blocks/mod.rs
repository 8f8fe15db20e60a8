//! How many blocks an AS has: a prefix-to-AS file, a routing table (MRT), or a CSV.
