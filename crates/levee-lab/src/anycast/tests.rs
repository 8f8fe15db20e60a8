use super::demo::{DemoResult, run};
use super::page;
use super::report::Report;

fn demo() -> (DemoResult, Report) {
    let result = run(&mut |_| {}).unwrap();
    let report = Report::new(&result);
    (result, report)
}

/// What the demo is there to show, as it is told.
#[test]
fn the_attack_is_carried_by_one_change() {
    let (result, report) = demo();
    let [bare, levee] = report.lanes.as_slice() else {
        panic!("{:?}", report.lanes);
    };
    assert_eq!(
        (bare.name.as_str(), levee.name.as_str()),
        ("undefended", "reroute")
    );
    // Of the load that LAX is sent it can answer less than a third; the others answer all.
    assert!(bare.honest.complete_share < 0.85, "{bare:?}");
    assert!(levee.honest.complete_share > 0.98, "{levee:?}");
    assert_eq!((bare.mitigated_after_s, bare.changes), (None, 0.0));
    assert!(
        levee.mitigated_after_s.is_some_and(|s| s < 600.0),
        "{levee:?}"
    );
    assert_eq!(report.plays.len(), 1, "{:?}", report.plays);
    // There and back.
    assert_eq!((levee.changes, levee.flaps), (2.0, 0.0));

    let over = |load: fn(&super::report::SiteReport) -> f64| {
        let sites = report
            .sites
            .iter()
            .filter(|site| load(site) > site.capacity);
        sites.map(|site| site.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(over(|site| site.before), [""; 0]);
    assert_eq!(over(|site| site.during), ["LAX"]);
    assert_eq!(over(|site| site.after), [""; 0]);

    let estimate = report.estimate.unwrap();
    assert!(
        estimate.observed < 0.8 * estimate.truth,
        "nothing is lost: {estimate:?}"
    );
    assert!(
        (estimate.offered / estimate.truth - 1.0).abs() < 0.15,
        "{estimate:?}"
    );
    assert!(
        estimate.low <= estimate.truth && estimate.high.is_none_or(|high| estimate.truth <= high)
    );

    // The last step is told, and the run goes on for as long as it says.
    assert_eq!(report.steps.last().unwrap().text, "the attack is over");
    let last = result.runs[1].moments.last().unwrap();
    assert_eq!((last.at.as_secs_f64(), last.play), (7_200.0, 0));
}

#[test]
fn it_is_the_same_each_time_and_in_all_forms() {
    let (result, report) = demo();
    let (_, again) = demo();
    assert_eq!(report, again);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["command"], "demo");
    assert_eq!(json["sites"].as_array().unwrap().len(), 6);
    for key in ["name", "capacity", "before", "during", "after"] {
        assert!(!json["sites"][0][key].is_null(), "{key}");
    }
    for key in ["offered", "low", "high", "truth"] {
        assert!(!json["estimate"][key].is_null(), "{key}");
    }
    let table = report.to_table();
    for site in &report.sites {
        assert!(table.contains(&site.name));
    }
    assert!(table.contains(&report.plays[0]));
    let page = page(&result, &report);
    assert_eq!(page.matches("<svg").count(), report.sites.len() + 1);
    assert!(page.ends_with("</html>\n") && !page.contains("NaN") && !page.contains("inf,"));
    for (open, close) in [
        ("<figure", "</figure>"),
        ("<table", "</table>"),
        ("<tr", "</tr>"),
    ] {
        assert_eq!(
            page.matches(open).count(),
            page.matches(close).count(),
            "{open}"
        );
    }
}
