//! Against a naive simulator, against every way to break ties, and on CAIDA's graph.

mod oracle;
mod real;
mod reference;
mod small;
