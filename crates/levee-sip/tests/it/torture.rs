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

#[test]
fn our_own_messages_get_the_same_answers() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    judge(&folder, ".sip", OWN);
}

#[test]
fn a_420_lists_every_unknown_tag() {
    let bytes = include_bytes!("../torture/proxy_require.sip");
    let mut scanner = Scanner::default();
    let msg = scanner.scan(bytes).unwrap();
    let no = check::request(&msg).unwrap_err();
    assert_eq!(no.unsupported, Some(&b"b, c"[..]));
    let tags: Vec<_> = check::unsupported_tags(&msg).collect();
    assert_eq!(tags, [b"b", b"c", b"d"]);
}

#[test]
fn a_broken_via_still_says_where_its_sender_is() {
    let bytes = include_bytes!("../torture/separators_in_via.sip");
    let mut scanner = Scanner::default();
    let msg = scanner.scan(bytes).unwrap();
    let via = check::request(&msg).unwrap_err().via.unwrap();
    assert_eq!(via.sent_by.name, b"192.0.2.9");
    assert_eq!(via.params.bytes(), b"");
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

/// Our own messages, by the fault that each carries.
const OWN: &[(&str, Fate)] = &[
    ("plain_invite", Forward),
    ("white_space_everywhere", Forward),
    ("odd_characters", Forward),
    ("escaped_user", Forward),
    ("escaped_nul", Forward),
    ("escaped_method_and_name", Forward),
    ("no_space_before_bracket", Forward),
    ("utf8_display_unquoted", Forward),
    ("long_values", Forward),
    ("two_in_one_datagram", Forward),
    ("semicolon_in_user", Forward),
    ("unknown_transports_below", Forward),
    ("unreadable_via_below", Forward),
    ("binary_body", Forward),
    ("response_utf8_reason", Forward),
    ("response_empty_reason", Forward),
    ("response_two_vias_in_a_line", Forward),
    ("response_to_our_own_request", Forward),
    ("response_unspecified_but_received", Forward),
    ("separators_in_via", Answer(400)),
    ("separators_in_contact", Answer(400)),
    ("body_shorter_than_length", Answer(400)),
    ("length_negative", Answer(400)),
    ("length_given_twice", Answer(400)),
    ("length_repeated", Answer(400)),
    ("cseq_2_31_less_1", Forward),
    ("cseq_2_31", Answer(400)),
    ("cseq_without_method", Answer(400)),
    ("max_forwards_300", Forward),
    ("max_forwards_huge", Forward),
    ("max_forwards_word", Answer(400)),
    ("max_forwards_1", Forward),
    ("max_forwards_0", Answer(483)),
    ("response_cseq_huge", Drop("bad_cseq")),
    ("response_code_huge", Drop("bad_status_code")),
    ("response_code_4_digits", Drop("bad_status_code")),
    ("response_to_broadcast", Drop("via_to_many")),
    ("response_to_group", Drop("via_to_many")),
    ("response_to_mapped_broadcast", Drop("via_to_many")),
    ("response_from_twice", Drop("repeated_header")),
    ("response_without_via", Drop("missing_header")),
    ("response_second_via_broken", Drop("bad_via")),
    ("quote_open", Answer(400)),
    ("uri_in_brackets", Answer(400)),
    ("uri_with_space", Answer(400)),
    ("spaces_in_first_line", Answer(400)),
    ("space_after_version", Answer(400)),
    ("headers_in_request_uri", Answer(400)),
    ("uri_port_65535", Forward),
    ("uri_port_65536", Answer(400)),
    ("uri_nul", Answer(400)),
    ("uri_missing", Answer(400)),
    ("date_odd", Forward),
    ("contact_needs_brackets", Answer(400)),
    ("contact_star_register", Forward),
    ("contact_star_invite", Answer(400)),
    ("contact_star_and_more", Answer(400)),
    ("contact_parameters", Forward),
    ("contact_escaped_headers", Forward),
    ("contact_twice_invite", Answer(400)),
    ("space_in_bracketed_uri", Answer(400)),
    ("display_name_with_comma", Answer(400)),
    ("version_3", Answer(505)),
    ("via_version_3", Answer(400)),
    ("cseq_names_another_method", Answer(400)),
    ("unknown_method_cseq_differs", Answer(501)),
    ("branch_without_id", Answer(400)),
    ("branch_twice", Answer(400)),
    ("tag_twice", Answer(400)),
    ("only_via_and_cseq", Answer(400)),
    ("call_id_empty", Answer(400)),
    ("no_via", Drop("missing_header")),
    ("via_unreadable", Drop("bad_via")),
    ("via_answers_to_group", Drop("via_to_many")),
    ("via_without_own_address", Forward),
    ("scheme_unknown", Answer(416)),
    ("scheme_known_elsewhere", Answer(416)),
    ("scheme_tel", Forward),
    ("scheme_emergency", Forward),
    ("schemes_elsewhere", Forward),
    ("proxy_require", Answer(420)),
    ("require_alone", Forward),
    ("proxy_require_cancel", Forward),
    ("content_unknown", Forward),
    ("credentials_unknown", Forward),
    ("once_given_twice", Answer(400)),
    ("old_style", Forward),
    ("route_list", Forward),
    ("route_without_brackets", Answer(400)),
    ("route_trailing_comma", Answer(400)),
    ("record_route_open", Answer(400)),
    ("ack_broken", Drop("bad_cseq")),
    ("ack_no_hops_left", Drop("too_many_hops")),
    ("line_ends_lf", Answer(400)),
    ("line_end_cr_inside", Answer(400)),
    ("header_without_colon", Answer(400)),
    ("headers_not_ended", Answer(400)),
    ("headers_200", Answer(513)),
    ("not_sip", Drop("bad_start_line")),
    ("nothing_but_nul", Drop("truncated")),
    ("no_version", Drop("bad_start_line")),
];
