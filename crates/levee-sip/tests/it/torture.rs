//! The messages of RFC 4475 and our own with the same faults, each with the answer that a proxy gives.

use std::fs;
use std::path::{Path, PathBuf};

use levee_sip::check;
use levee_sip::wire::{Scanner, StartLine};

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// It is passed on.
    Forward,
    /// It is answered with this code.
    Answer(u16),
    /// It is dropped and counted under this label.
    Drop(&'static str),
}
use Fate::{Answer, Drop, Forward};

fn fate(bytes: &[u8]) -> Fate {
    let mut scanner = Scanner::default();
    let msg = match scanner.scan(bytes) {
        Ok(msg) => msg,
        Err(d) => return Drop(check::defect_cause(d.kind)),
    };
    match msg.start() {
        StartLine::Response { .. } => match check::response(&msg) {
            Ok(_) => Forward,
            Err(cause) => Drop(cause),
        },
        StartLine::Request { .. } => match check::request(&msg) {
            Ok(_) => Forward,
            Err(no) if no.answerable => Answer(no.code),
            Err(no) => Drop(no.cause),
        },
    }
}

fn judge(folder: &Path, ending: &str, table: &[(&str, Fate)]) {
    let mut wrong = Vec::new();
    for (name, want) in table {
        let path = folder.join(format!("{name}{ending}"));
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let got = fate(&bytes);
        if got != *want {
            wrong.push(format!("{name}: expected {want:?}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|e| {
            let name = e.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(ending).map(str::to_owned)
        })
        .collect();
    let mut listed: Vec<_> = table.iter().map(|(n, _)| (*n).to_owned()).collect();
    files.sort();
    listed.sort();
    assert_eq!(files, listed, "each file has its line in the table");
}

#[test]
fn the_rfc_4475_messages_get_the_answers_the_rfc_wants() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/rfc4475");
    if !folder.is_dir() {
        println!(
            "skipped: the RFC 4475 files are not in {}",
            folder.display()
        );
        return;
    }
    judge(&folder, ".dat", RFC_4475);
}

/// Sections in order; `TC_TEST` is not in the RFC, and has neither version nor Via.
const RFC_4475: &[(&str, Fate)] = &[
    ("TC_WSINV", Forward),
    ("TC_INTMETH", Forward),
    ("TC_ESC01_V", Forward),
    ("TC_ESCNULL_V", Forward),
    ("TC_ESC02_V", Forward),
    ("TC_LWSDISP_V", Forward),
    ("TC_LONGREQ_V", Forward),
    ("TC_DBLREQ", Forward),
    ("TC_SEMIURI_V", Forward),
    ("TC_TRANSPORTS_V", Forward),
    ("TC_MPART01", Forward),
    ("TC_UNREASON_V", Forward),
    ("TC_NOREASON_V", Forward),
    ("TC_BADINV01_I", Answer(400)),
    ("TC_CLERR_I", Answer(400)),
    ("TC_NCL_I", Answer(400)),
    ("TC_SCALAR02_V", Answer(400)),
    ("TC_SCALARLG_V", Drop("bad_cseq")),
    ("TC_QUOTBAL_I", Answer(400)),
    ("TC_LTGTRURI_I", Answer(400)),
    ("TC_LWSRURI_I", Answer(400)),
    ("TC_LWSSTART_V", Answer(400)),
    ("TC_TRWS_I", Answer(400)),
    ("TC_ESCRURI_V", Answer(400)),
    ("TC_BADDATE_V", Forward),
    ("TC_REGBADCT_I", Answer(400)),
    ("TC_BADASPEC_I", Answer(400)),
    ("TC_BADDN_I", Answer(400)),
    ("TC_BADVERS_V", Answer(505)),
    ("TC_MISMATCH01_V", Answer(400)),
    ("TC_MISMATCH02_V", Answer(501)),
    ("TC_BIGCODE_V", Drop("bad_status_code")),
    ("TC_BADBRANCH_V", Answer(400)),
    ("TC_INSUF_I", Answer(400)),
    ("TC_UNKSCM_V", Answer(416)),
    ("TC_NOVELSC_V", Answer(416)),
    ("TC_UNKSM2_V", Forward),
    ("TC_BEXT01_V", Answer(420)),
    ("TC_INVUT_V", Forward),
    ("TC_REGAUT01_V", Forward),
    ("TC_MULTI01_I", Answer(400)),
    ("TC_MCL01_I", Answer(400)),
    ("TC_BCAST_V", Drop("via_to_many")),
    ("TC_ZEROMF_V", Answer(483)),
    ("TC_CPARAM01_V", Forward),
    ("TC_CPARAM02_V", Forward),
    ("TC_REGESCRT_V", Forward),
    ("TC_SDP01_V", Forward),
    ("TC_INV2543_I", Forward),
    ("TC_TEST_I", Drop("bad_start_line")),
];
