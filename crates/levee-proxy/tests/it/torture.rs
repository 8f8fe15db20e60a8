//! The messages of RFC 4475, and what the front does with each: the answer that the RFC wants, or the message passed on.

use std::path::PathBuf;

use crate::world::*;

/// File, and what is expected: a status code, `forward`, or `drop`.
const EXPECTED: [(&str, &str); 50] = [
    ("TC_BADASPEC_I", "400"),
    ("TC_BADBRANCH_V", "400"),
    ("TC_BADDATE_V", "forward"),
    ("TC_BADDN_I", "400"),
    ("TC_BADINV01_I", "400"),
    ("TC_BADVERS_V", "505"),
    ("TC_BCAST_V", "drop"),
    ("TC_BEXT01_V", "420"),
    ("TC_BIGCODE_V", "drop"),
    ("TC_CLERR_I", "400"),
    ("TC_CPARAM01_V", "forward"),
    ("TC_CPARAM02_V", "forward"),
    ("TC_DBLREQ", "forward"),
    ("TC_ESC01_V", "forward"),
    ("TC_ESC02_V", "forward"),
    ("TC_ESCNULL_V", "forward"),
    ("TC_ESCRURI_V", "400"),
    ("TC_INSUF_I", "400"),
    ("TC_INTMETH", "forward"),
    ("TC_INV2543_I", "forward"),
    ("TC_INVUT_V", "forward"),
    ("TC_LONGREQ_V", "forward"),
    ("TC_LTGTRURI_I", "400"),
    ("TC_LWSDISP_V", "forward"),
    ("TC_LWSRURI_I", "400"),
    ("TC_LWSSTART_V", "400"),
    ("TC_MCL01_I", "400"),
    ("TC_MISMATCH01_V", "400"),
    ("TC_MISMATCH02_V", "501"),
    ("TC_MPART01", "forward"),
    ("TC_MULTI01_I", "400"),
    ("TC_NCL_I", "400"),
    // Responses to nothing of ours go nowhere, well formed or not.
    ("TC_NOREASON_V", "drop"),
    ("TC_NOVELSC_V", "416"),
    ("TC_QUOTBAL_I", "400"),
    ("TC_REGAUT01_V", "forward"),
    ("TC_REGBADCT_I", "400"),
    ("TC_REGESCRT_V", "forward"),
    ("TC_SCALAR02_V", "400"),
    ("TC_SCALARLG_V", "drop"),
    ("TC_SDP01_V", "forward"),
    ("TC_SEMIURI_V", "forward"),
    ("TC_TEST_I", "drop"),
    ("TC_TRANSPORTS_V", "forward"),
    ("TC_TRWS_I", "400"),
    ("TC_UNKSCM_V", "416"),
    ("TC_UNKSM2_V", "forward"),
    ("TC_UNREASON_V", "drop"),
    ("TC_WSINV", "forward"),
    ("TC_ZEROMF_V", "483"),
];

#[test]
fn each_message_gets_the_answer_that_rfc_4475_wants() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rfc4475");
    if !dir.is_dir() {
        eprintln!(
            "skipped: the messages of RFC 4475 are not at {}",
            dir.display()
        );
        return;
    }
    let mut wrong = Vec::new();
    for (name, expected) in EXPECTED {
        let bytes = std::fs::read(dir.join(format!("{name}.dat"))).unwrap();
        let mut w = World::of(10, seven());
        let sent = w.send(ALICE, &bytes);
        let forwarded = sent.iter().find(|s| s.to == SERVER);
        let got = match (forwarded, sent.last()) {
            (Some(_), _) => "forward".to_owned(),
            (None, None) => "drop".to_owned(),
            (None, Some(s)) => s.text.get(8..11).unwrap_or_default().to_owned(),
        };
        if got != expected {
            wrong.push(format!(
                "{name}: expected {expected}, got {got}: {:?}",
                firsts(&sent)
            ));
        }
        if let Some(forwarded) = forwarded {
            // What goes on is whole, and a well-formed message again.
            let again = World::of(10, seven()).send(SERVER, &forwarded.text);
            assert!(
                !again.iter().any(|s| s.text.starts_with("SIP/2.0 400")),
                "{name}: {again:?}"
            );
        }
        if expected == "420" {
            let unsupported = only(&sent, "SIP/2.0 420").header("Unsupported");
            assert!(
                unsupported.contains("noProxiesSupportThis"),
                "{unsupported}"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
