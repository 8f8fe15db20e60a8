//! What the fuzzer feeds to the reader of AS graphs.

use levee_anycast::graph::AsGraph;

/// Reads any bytes as AS relationships. A graph that comes out has its links both ways round, and written and read again it is
/// the same.
pub(crate) fn as_rel(bytes: &[u8]) {
    let Ok(graph) = AsGraph::read("fuzz", bytes) else {
        return;
    };
    let mut text = String::from("# inferred clique:");
    for index in graph.tier1() {
        text.push_str(&format!(" {}", graph.asn(*index)));
    }
    text.push('\n');
    for (index, asn) in (0_u32..).zip(graph.asns()) {
        assert_eq!(graph.find(*asn), Some(index));
        for &customer in graph.customers(index) {
            assert!(graph.providers(customer).binary_search(&index).is_ok());
            text.push_str(&format!("{asn}|{}|-1\n", graph.asn(customer)));
        }
        for &peer in graph.peers(index) {
            assert!(graph.peers(peer).binary_search(&index).is_ok());
            if index < peer {
                text.push_str(&format!("{asn}|{}|0\n", graph.asn(peer)));
            }
        }
    }
    let again = AsGraph::read("again", text.as_bytes()).expect("what was written");
    assert_eq!(again.asns(), graph.asns());
    assert_eq!(again.tier1(), graph.tier1());
    assert_eq!(again.findings().circle, graph.findings().circle);
    for index in (0_u32..).take(graph.len()) {
        assert_eq!(again.providers(index), graph.providers(index));
        assert_eq!(again.peers(index), graph.peers(index));
    }
}
