use std::fmt::Write as _;

use rand_core::{Rng, SeedableRng as _};
use rand_pcg::Pcg64;

use super::*;

/// Uniform in [0, 1).
pub(crate) fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(rng: &mut Pcg64) -> f64 {
    let radius = (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(rng)).cos()
}

/// A duration of this law.
pub(crate) fn draw(law: &Law, rng: &mut Pcg64) -> f64 {
    let exponential = -(1.0 - unit(rng)).ln();
    match *law {
        Law::Exponential { mean } => mean * exponential,
        Law::Lognormal { mu, sigma } => (mu + sigma * normal(rng)).exp(),
        Law::Weibull { shape, scale } => scale * exponential.powf(1.0 / shape),
        // Marsaglia and Tsang (2000), for shape + 1 and then down by a power of a uniform.
        Law::Gamma { shape, scale } => {
            let d = shape + 1.0 - 1.0 / 3.0;
            let c = 1.0 / (9.0 * d).sqrt();
            loop {
                let x = normal(rng);
                let v = (1.0 + c * x).powi(3);
                let u = 1.0 - unit(rng);
                if v > 0.0 && u.ln() < x * x / 2.0 + d - d * v + d * v.ln() {
                    return scale * d * v * (1.0 - unit(rng)).powf(1.0 / shape);
                }
            }
        }
    }
}

fn read(text: &str, options: &Options) -> Result<Report, FitError> {
    fit(text.as_bytes(), options)
}

/// Twelve calls of 10 to 120 seconds that ring for 5, one a minute, by `row(start, answer, end, number)`.
fn twelve(row: impl Fn(&str, &str, &str, u32) -> String) -> String {
    (1..=12)
        .map(|i| {
            let at = |s: u32| format!("2026-03-14 10:{:02}:{:02}", i + s / 60, s % 60);
            row(&at(0), &at(5), &at(5 + 10 * i), i)
        })
        .collect()
}

fn asterisk() -> String {
    twelve(|start, answer, end, i| {
        format!(
            "\"\",\"100{i}\",\"200\",\"internal\",\"\"\"Ann, B\"\" <100{i}>\",\"SIP/a\",\"SIP/b\",\"Dial\",\"SIP/b,30\",\"{start}\",\"{answer}\",\"{end}\",{},{},\"ANSWERED\",\"DOCUMENTATION\",\"17.{i}\",\"\"\n",
            5 + 10 * i,
            10 * i
        )
    })
}

/// Rows of all formats that tell the same twelve calls, and what is said about them.
#[test]
fn every_format_tells_the_same_calls() {
    let custom = asterisk().replace("\"\",\"100", "\"100");
    let freeswitch = twelve(|start, answer, end, i| {
        format!(
            "\"Ann\",\"100{i}\",\"200\",\"default\",\"{start}\",\"{answer}\",\"{end}\",\"{}\",\"{}\",\"NORMAL_CLEARING\",\"u{i}\",\"\",\"\",\"PCMU\",\"PCMU\"\n",
            5 + 10 * i,
            10 * i
        )
    });
    let json = twelve(|start, _, _, i| {
        let epoch = stamp::parse(start.as_bytes()).unwrap() / stamp::SECOND;
        format!(
            "{{\"core-uuid\":\"c\",\"variables\":{{\"uuid\":\"u{i}\",\"start_epoch\":\"{epoch}\",\"answer_epoch\":\"{}\",\"duration\":\"{}\",\"billsec\":\"{}\",\"billusec\":\"{}\",\"uduration\":\"{}\"}},\"callflow\":[]}}\n",
            epoch + 5,
            5 + 10 * i,
            10 * i,
            10_000_000 * i,
            5_000_000 + 10_000_000 * i
        )
    });
    let pretty = json
        .replace("{\"core", "{\n  \"core")
        .replace(",\"callflow", ",\n  \"callflow");
    let acc = format!(
        "id,method,from_tag,to_tag,callid,sip_code,sip_reason,time\n{}",
        twelve(|_, answer, end, i| format!(
            "1,INVITE,f,t,call{i},200,OK,{answer}\n2,ACK,f,t,call{i},200,OK,{answer}\n3,BYE,f,t,call{i},200,OK,{end}\n"
        ))
    );
    let cdrs = format!(
        "cdr_id\tsrc_username\tcall_start_time\tduration\tsip_call_id\n{}",
        twelve(|_, answer, _, i| format!("{i}\tann\t{answer}\t{}\tc{i}\n", 10 * i))
    );
    let table = format!(
        "calldate;src;duration;billsec;disposition\n{}",
        twelve(|start, _, _, i| format!("{start};ann;{};{};ANSWERED\n", 5 + 10 * i, 10 * i))
    );
    for (text, format, said, rounding, ring) in [
        (
            asterisk(),
            Format::Asterisk,
            "18 columns by comma, no header; talk time from column 14",
            Rounding::Down,
            Some(5.0),
        ),
        (
            custom,
            Format::Asterisk,
            "17 columns by comma, no header; talk time from column 13",
            Rounding::Down,
            Some(5.0),
        ),
        (
            table,
            Format::Asterisk,
            "5 columns by semicolon, a header; talk time from column 4 (billsec)",
            Rounding::Down,
            Some(5.0),
        ),
        (
            freeswitch,
            Format::Freeswitch,
            "15 columns by comma, no header; talk time from column 9",
            Rounding::Difference,
            Some(5.0),
        ),
        (
            json,
            Format::FreeswitchJson,
            "talk time from billusec",
            Rounding::Nearest,
            Some(5.0),
        ),
        (
            pretty,
            Format::FreeswitchJson,
            "talk time from billusec",
            Rounding::Nearest,
            Some(5.0),
        ),
        (
            acc,
            Format::Kamailio,
            "talk time from INVITE to BYE, column 8",
            Rounding::Difference,
            None,
        ),
        (
            cdrs,
            Format::Kamailio,
            "by tab, a header; talk time from column 4 (duration)",
            Rounding::Difference,
            None,
        ),
    ] {
        for text in [
            text.clone(),
            text.replace('\n', "\r\n"),
            format!("\u{feff}{text}"),
        ] {
            let report = read(&text, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!((report.format, report.unanswered), (format, 0), "{text}");
            assert!(report.detected.contains(said), "{}", report.detected);
            assert_eq!(report.sample.rounding(), rounding);
            assert_eq!((report.sample.len(), report.bad.len()), (12, 0), "{text}");
            let half = if rounding == Rounding::Down { 0.5 } else { 0.0 };
            assert!((report.sample.mean() - 65.0 - half).abs() < 1e-6);
            assert_eq!(report.ring.map(|r| (r * 1e6).round() / 1e6), ring);
            let busy = report.arrivals.unwrap().busy;
            assert_eq!(
                (busy.calls, stamp::minutes(busy.start).get(..14)),
                (12, Some("2026-03-14 10:"))
            );
        }
    }
}

#[test]
fn named_columns_by_name_and_by_number() {
    let text = format!(
        "Who;Picked up;Hung up;Talk\n{}",
        twelve(|_, answer, end, i| {
            format!(
                "ann;{answer};{end};0:{:02}:{:02}\n",
                i * 10 / 60,
                i * 10 % 60
            )
        })
    );
    let named = |duration: Option<&str>, answer: Option<&str>, end: Option<&str>| Options {
        columns: Named {
            duration: duration.map(str::to_owned),
            answer: answer.map(str::to_owned),
            end: end.map(str::to_owned),
            start: None,
        },
        ..Options::default()
    };
    for (options, rounding) in [
        (named(Some("talk"), None, None), Rounding::Down),
        (named(Some("4"), None, None), Rounding::Down),
        (
            named(None, Some("Picked up"), Some("hung up")),
            Rounding::Difference,
        ),
        (named(None, Some("2"), Some("3")), Rounding::Difference),
        (
            Options {
                rounding: Some(Rounding::Up),
                ..named(Some("Talk"), None, None)
            },
            Rounding::Up,
        ),
    ] {
        let report = read(&text, &options).unwrap();
        assert_eq!(report.format, Format::Csv);
        assert_eq!((report.rows, report.sample.len()), (12, 12), "{options:?}");
        assert_eq!(report.sample.rounding(), rounding);
        assert_eq!(report.sample.quantile(1.0), 120.0);
    }
    let error = read(&text, &named(Some("length"), None, None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no column `length`") && error.contains("Picked up, Hung up, Talk"),
        "{error}"
    );
    // A column of numbers alone, in milliseconds.
    let plain: String = (1..=12).map(|i| format!("{}\n", i * 10_000)).collect();
    let options = Options {
        unit: Some(1e-3),
        ..named(Some("1"), None, None)
    };
    let report = read(&plain, &options).unwrap();
    assert_eq!(
        (report.sample.len(), report.sample.quantile(1.0)),
        (12, 120.063)
    );
}

#[test]
fn calls_without_answer_and_bad_rows_are_counted_apart() {
    let mut text = asterisk();
    // Line 13 to 19.
    for (billsec, disposition) in [
        ("0", "NO ANSWER"),
        ("0", "ANSWERED"),
        ("x", "ANSWERED"),
        ("-4", "ANSWERED"),
        ("99999999", "ANSWERED"),
    ] {
        writeln!(text, "a,b,c,d,\"two\nlines\",f,g,h,i,2026-03-14 10:30:00,,2026-03-14 10:30:20,20,{billsec},{disposition},doc,id,").unwrap();
    }
    text.push_str("a,b\n");
    text.push_str("a,b,c,d,e,f,g,h,i,2026-02-30 10:30:00,,,20,10,ANSWERED,doc,id,\n");
    let report = read(&text, &Options::default()).unwrap();
    assert_eq!(
        (report.rows, report.unanswered, report.sample.len()),
        (19, 1, 13)
    );
    let lines = |cause| report.bad[&cause].lines.clone();
    assert_eq!(lines(Cause::NoDuration), [17]);
    assert_eq!(lines(Cause::Negative), [19]);
    assert_eq!(lines(Cause::TooLong), [21]);
    assert_eq!(lines(Cause::TooFewColumns), [23]);
    assert_eq!(lines(Cause::BadTime), [24]);
    // An answered call of less than a second is one.
    assert_eq!(report.sample.quantile(0.01), 0.0);
}

#[test]
fn a_zero_without_a_word_on_the_answer_is_left_out() {
    let rows: String = (0..12).map(|i| format!("a,{}\n", i * 10)).collect();
    let report = read(&format!("who,duration\n{rows}"), &Options::default()).unwrap();
    assert_eq!((report.unanswered, report.sample.len()), (1, 11));
    assert!(report.sample.is_without_zeros());
    assert!(
        report.warnings[0].contains("counts as not answered"),
        "{:?}",
        report.warnings
    );
}

#[test]
fn halves_of_calls_in_acc_are_counted() {
    let mut text = String::from("method,callid,sip_code,time\n");
    text += &twelve(|_, answer, end, i| {
        format!("INVITE,c{i},200,{answer}\nINVITE,c{i},200,{end}\nBYE,c{i},200,{end}\n")
    });
    text += "BYE,lost,200,2026-03-14 11:00:00\nINVITE,open,200,2026-03-14 11:00:00\nINVITE,busy,486,2026-03-14 11:00:00\n";
    let report = read(&text, &Options::default()).unwrap();
    assert_eq!((report.sample.len(), report.unanswered), (12, 1));
    assert_eq!(report.bad[&Cause::ByeWithoutInvite].lines, [38]);
    assert_eq!(report.bad[&Cause::InviteWithoutBye].lines, [39]);
    // An INVITE inside the dialog did not begin the call anew.
    assert_eq!(report.sample.quantile(1.0), 120.0);
}

#[test]
fn a_broken_object_costs_itself_only() {
    let object = |i: u32| {
        format!(
            "{{\"variables\":{{\"billsec\":{},\"answer_epoch\":1773484000}}}}\n",
            i * 10
        )
    };
    let many: String = (1..=12).map(object).collect();
    let lines = format!(
        "{}{{\"variables\":{{\"bil\n{many}[1]\n{{\"variables\":{{}}}}\n",
        object(1)
    );
    let report = read(&lines, &Options::default()).unwrap();
    assert_eq!((report.rows, report.sample.len()), (16, 13));
    assert_eq!(report.bad[&Cause::NotJson].lines, [2, 15]);
    assert_eq!(report.bad[&Cause::NoDuration].lines, [16]);
    assert_eq!(report.sample.rounding(), Rounding::Difference);
    let spread = many.replace("{\"v", "{\n \"v");
    let report = read(
        &format!("{spread}{{\n \"variables\": ?\n}}\n{spread}"),
        &Options::default(),
    )
    .unwrap();
    assert_eq!(
        (report.sample.len(), report.bad[&Cause::NotJson].count),
        (24, 1)
    );
}

#[test]
fn what_is_no_file_of_calls_is_refused_with_a_word_on_what_is() {
    for (text, says) in [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (
            "hello world\nhow are you\n",
            "| hello world\n  | how are you\nexpected one of\n  asterisk",
        ),
        (
            "a,b,c\n1,2,3\n",
            "not a format of call records that is known",
        ),
        ("\u{1}\u{2},x\n", "| ??,x"),
        (
            "calldate,billsec,disposition\n2026-03-14 10:00:00,5,ANSWERED\n",
            "1 answered calls in 1 rows",
        ),
        ("{\"variables\":1}\n", "no JSON object of a call, line 1"),
    ] {
        let error = read(text, &Options::default()).unwrap_err().to_string();
        assert!(error.contains(says), "{text:?}: {error}");
    }
    let asked = Options {
        format: Some(Format::Kamailio),
        ..Options::default()
    };
    let error = read(&asterisk(), &asked).unwrap_err().to_string();
    assert!(error.starts_with("not of the format kamailio"), "{error}");
    let error = fit(&b"\xff\xfea\0"[..], &Options::default()).unwrap_err();
    assert!(matches!(error, FitError::Utf16));
    let same: String = (0..20).map(|_| "60\n").collect();
    let error = read(&format!("billsec\n{same}"), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("kind = \"fixed\", mean = \"60.5s\""),
        "{error}"
    );
}

#[test]
fn an_open_quote_does_not_take_in_the_whole_file() {
    let mut text = asterisk().into_bytes();
    text.extend_from_slice(b"\"open");
    let endless = text.as_slice().chain(io::repeat(b'x'));
    let error = fit(endless, &Options::default()).unwrap_err();
    assert!(matches!(error, FitError::TooLong { line: 13 }), "{error:?}");
}

/// The settings, read back by the parsers of scenarios and of defences.
fn pasted(report: &Report) -> (crate::scenario::Setup, levee_policy::selective::DropFactor) {
    let none = |_: &str| Err(io::Error::other("no file"));
    let text = settings::scenario(report);
    let scenario = crate::scenario::Scenario::parse("fit.toml", &text, &none)
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let setup = scenario.points[0].setup.clone();
    let table = format!("d = {}", settings::drop_factor(report));
    let mut parsed: BTreeMap<String, levee_policy::selective::DropFactor> =
        toml::from_str(&table).unwrap();
    (setup, parsed.remove("d").unwrap())
}

#[test]
fn the_settings_are_a_scenario_and_a_defence() {
    let undated: String = (1..=12).map(|i| format!("{}\n", i * 10)).collect();
    for text in [asterisk(), format!("billsec\n{undated}")] {
        let report = read(&text, &Options::default()).unwrap();
        let (setup, drop_factor) = pasted(&report);
        assert_eq!(setup.defense.unwrap().drop_factor, drop_factor);
        let expected = report.sample.mean() + report.ring.unwrap_or_default();
        let mean_call = drop_factor.mean_call.as_secs_f64();
        assert!((mean_call - expected).abs() < 0.05);
        match report.arrivals {
            None => assert_eq!(setup.service.capacity, 24),
            Some(Arrivals { busy, places }) => {
                // Twelve calls in less than an hour, 65 s of talk and 5 s of ringing each.
                assert!((busy.erlang * busy.seconds - 12.0 * 70.0).abs() < 1e-6);
                assert_eq!(setup.service.capacity, places);
                assert_eq!(setup.run.ring.as_secs_f64(), 5.0);
                let rate = 12.0 / busy.seconds;
                assert!(
                    (setup.honest.rate / rate - 1.0).abs() < 1e-3,
                    "{}",
                    setup.honest.rate
                );
            }
        }
    }
}

#[test]
fn each_family_is_pasted_as_it_was_fitted() {
    use crate::schedule::Durations;

    let mut seen = std::collections::BTreeSet::new();
    for (i, truth) in law::tests::LAWS.iter().enumerate() {
        let mut rng = Pcg64::seed_from_u64(70 + i as u64);
        let mut text = String::from("billmsec\n");
        for _ in 0..2_000 {
            writeln!(text, "{}", (draw(truth, &mut rng) * 1e3).round()).unwrap();
        }
        let report = read(&text, &Options::default()).unwrap();
        assert_eq!(report.sample.grain(), 1e-3);
        let best = report.best().unwrap();
        seen.insert(best.law.family());
        let durations = pasted(&report).0.honest.durations;
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 2e-3;
        assert!(close(durations.mean().as_secs_f64(), best.mean));
        let same = match (best.law, durations) {
            (Law::Exponential { .. }, Durations::Exponential(_)) => true,
            (Law::Lognormal { sigma: a, .. }, Durations::Lognormal { sigma: b, .. })
            | (Law::Gamma { shape: a, .. }, Durations::Gamma { shape: b, .. })
            | (Law::Weibull { shape: a, .. }, Durations::Weibull { shape: b, .. }) => close(a, b),
            _ => false,
        };
        assert!(same, "{best:?}");
    }
    assert!(seen.len() >= 3, "{seen:?}");
}
