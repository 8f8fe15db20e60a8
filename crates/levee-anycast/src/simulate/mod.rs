//! Which site each AS reaches: Gao-Rexford route selection on an AS graph.
