//! The page of a playbook: one file with all that it needs inside, for any browser, with or without its script.

mod colour;

use std::fmt::Write as _;

use levee_policy::reroute::{Playbook, SiteId};

use self::colour::Shade;
use super::judge::{Judgement, Verdict};
use super::routing::{path_text, withdraws};
use super::tables::{BINS, Tables};
use super::text::{self, bin_name, runs};
use crate::figures::thousands;

/// The most configurations and cells that a page shows, so that a browser can still sort them.
const ROWS_MAX: usize = 2_000;
const CELLS_MAX: usize = 100_000;

/// Writes the page. `style` is the style sheet of all of Levee's pages.
#[must_use]
pub fn page(
    title: &str,
    playbook: &Playbook,
    tables: &Tables,
    judgements: &[Judgement],
    style: &str,
) -> String {
    let mut out = String::with_capacity(256 << 10);
    let title = escape(title);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{style}{css}</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        css = include_str!("page.css"),
    )
    .ok();
    headline(&mut out, playbook, tables);
    ranges(&mut out, playbook, tables);
    heat_map(&mut out, playbook, tables);
    options(&mut out, playbook, tables);
    reach(&mut out, playbook, tables);
    poisons(&mut out, judgements);
    write!(
        out,
        "</main>\n<script>\n{}</script>\n</body>\n</html>\n",
        include_str!("page.js")
    )
    .ok();
    out
}

/// Text for HTML, in elements and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// As in the terminal, for HTML: what is little has a `<`.
fn percent(share: f64) -> String {
    escape(&text::percent(share))
}

fn headline(out: &mut String, playbook: &Playbook, tables: &Tables) {
    let baseline = &playbook.plays()[0];
    let partial = playbook.plays().iter().filter(|play| play.partial).count();
    let (fewest, most) = tables
        .reach
        .iter()
        .fold((BINS, 0), |(fewest, most), reach| {
            (fewest.min(reach.options), most.max(reach.options))
        });
    write!(
        out,
        "<p class=\"soft\">Shares {}. Baseline: {}.</p>\n<ul class=\"headline\">\n",
        tables.unit.by(),
        escape(&baseline.routing.name)
    )
    .ok();
    let mut item = |figure: String, what: String| {
        writeln!(out, "<li><b>{figure}</b>{what}</li>").ok();
    };
    item(
        playbook.plays().len().to_string(),
        format!("routing configurations, {partial} of them partial"),
    );
    item(playbook.sites().len().to_string(), "sites".to_owned());
    item(
        thousands(baseline.known()),
        format!(
            "blocks in the baseline; of {} nothing is known",
            thousands(baseline.unknown)
        ),
    );
    item(
        format!("{fewest} to {most}"),
        format!("of {BINS} bins that the configurations bring a site into"),
    );
    out.push_str("</ul>\n");
}

/// A bar for each site from floor to ceiling, with a mark at the baseline.
fn ranges(out: &mut String, playbook: &Playbook, tables: &Tables) {
    const LEFT: f64 = 130.0;
    const WIDTH: f64 = 860.0;
    const ROW: f64 = 30.0;
    let x = |share: f64| LEFT + (WIDTH - LEFT - 20.0) * share;
    let bottom = 8.0 + ROW * playbook.sites().len() as f64;
    write!(
        out,
        "<figure class=\"wide\">\n<h2>How far each site can be moved</h2>\n\
         <p class=\"soft\">From the least share to the most that a configuration gives it, short of withdrawing it; the mark is the baseline.</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Range of the share of each site; the table of what can be reached has the figures\">\n",
        bottom + 26.0
    )
    .ok();
    for tenth in (0..=BINS).step_by(2) {
        let at = x(tenth as f64 / BINS as f64);
        writeln!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"4\" y2=\"{bottom:.1}\"/><text class=\"axis\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}%</text>",
            bottom + 17.0,
            tenth * BINS
        )
        .ok();
    }
    for (i, (site, reach)) in playbook.sites().names().zip(&tables.reach).enumerate() {
        let y = 8.0 + ROW * i as f64;
        let (low, high) = (x(reach.floor.share), x(reach.ceiling.share));
        let name = |play: usize| escape(&playbook.plays()[play].routing.name);
        writeln!(
            out,
            "<g><title>{site}: {} by {}, {} in the baseline, {} by {}</title>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{site}</text>\
             <rect class=\"range\" x=\"{low:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>\
             <rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"3\" height=\"20\"/></g>",
            percent(reach.floor.share),
            name(reach.floor.play),
            percent(reach.baseline),
            percent(reach.ceiling.share),
            name(reach.ceiling.play),
            LEFT - 10.0,
            y + 16.0,
            y + 5.0,
            (high - low).max(2.0),
            x(reach.baseline) - 1.5,
            y + 2.0,
            site = escape(site),
        )
        .ok();
    }
    out.push_str("</svg>\n</figure>\n");
}

fn heat_map(out: &mut String, playbook: &Playbook, tables: &Tables) {
    let rows = ROWS_MAX.min(CELLS_MAX / playbook.sites().len()).max(1);
    out.push_str(
        "<figure class=\"wide\" id=\"shares\">\n<h2>Share of each site under each configuration</h2>\n\
         <p class=\"soft\">A heading sorts by its column; a cell tells its figures when pointed at.</p>\n\
         <form class=\"find\" hidden><label>Configuration <input id=\"name\" type=\"search\" placeholder=\"part of a name\"/></label>\n\
         <label>that gives <select id=\"site\"><option value=\"\">any site</option>",
    );
    for (i, site) in playbook.sites().names().enumerate() {
        write!(out, "<option value=\"{}\">{}</option>", i + 1, escape(site)).ok();
    }
    out.push_str(
        "</select></label>\n<label>from <input id=\"low\" type=\"number\" min=\"0\" max=\"100\" value=\"0\"/></label>\n\
         <label>to <input id=\"high\" type=\"number\" min=\"0\" max=\"100\" value=\"100\"/> %</label> <output id=\"found\" aria-live=\"polite\"></output></form>\n\
         <div class=\"scroll heat\"><table>\n<thead><tr><th scope=\"col\">configuration</th>",
    );
    for site in playbook.sites().names() {
        write!(out, "<th scope=\"col\">{}</th>", escape(site)).ok();
    }
    out.push_str(
        "<th scope=\"col\">blocks</th><th scope=\"col\">unknown</th></tr></thead>\n<tbody>\n",
    );
    for play in 0..playbook.plays().len().min(rows) {
        heat_row(out, playbook, tables, play);
    }
    out.push_str("</tbody>\n</table></div>\n");
    if playbook.plays().len() > rows {
        writeln!(
            out,
            "<p class=\"soft\">{} further configurations are in the JSON.</p>",
            playbook.plays().len() - rows
        )
        .ok();
    }
    out.push_str("</figure>\n");
}

fn heat_row(out: &mut String, playbook: &Playbook, tables: &Tables, play: usize) {
    let one = &playbook.plays()[play];
    let mark = match (play, one.partial) {
        (_, true) => " <span class=\"tag warn\">partial</span>",
        (0, _) => " <span class=\"tag\">baseline</span>",
        _ => "",
    };
    let name = escape(&one.routing.name);
    write!(
        out,
        "<tr{}><td title=\"{}\">{name}{mark}</td>",
        if one.partial {
            " class=\"partial\""
        } else {
            ""
        },
        escape(&announced(playbook, play))
    )
    .ok();
    for (i, share) in tables.share[play].iter().enumerate() {
        let site = SiteId(i as u8);
        let shade = Shade::of(*share);
        let change = (share - tables.share[0][i]) * 100.0;
        let mut tip = format!(
            "{} under {}: {}, {} blocks",
            playbook.sites().name(site),
            one.routing.name,
            text::percent(*share),
            thousands(one.blocks[i])
        );
        if let Some(load) = &one.load {
            write!(tip, ", load {:.1}", load[i]).ok();
        }
        if play > 0 {
            write!(tip, ", {change:+.1} points against the baseline").ok();
        }
        let gone = withdraws(&one.routing, playbook.sites(), site);
        if gone {
            tip.push_str(", withdrawn");
        }
        write!(
            out,
            "<td class=\"{}\" style=\"{}\" data-v=\"{share:.6}\" title=\"{}\">{}</td>",
            shade.classes(),
            shade.style(),
            escape(&tip),
            if gone {
                "withdrawn".to_owned()
            } else {
                percent(*share)
            }
        )
        .ok();
    }
    writeln!(
        out,
        "<td data-v=\"{}\">{}</td><td data-v=\"{}\">{}</td></tr>",
        one.known(),
        thousands(one.known()),
        one.unknown,
        thousands(one.unknown)
    )
    .ok();
}

/// What the sites announce, as far as they do not announce plainly.
fn announced(playbook: &Playbook, play: usize) -> String {
    let routing = &playbook.plays()[play].routing;
    let Some(all) = &routing.announcements else {
        return String::new();
    };
    let mut parts = Vec::new();
    for (site, announcement) in playbook.sites().names().zip(all) {
        match &announcement.everyone {
            None if announcement.neighbours.is_empty() => parts.push(format!("{site}: withdrawn")),
            None => {}
            Some(path) => {
                let text = path_text(path);
                if !text.is_empty() {
                    parts.push(format!("{site}: {text}"));
                }
            }
        }
        for (asn, path) in &announcement.neighbours {
            let text = path
                .as_ref()
                .map_or_else(|| "nothing".to_owned(), path_text);
            let text = if text.is_empty() { "plain" } else { &text };
            parts.push(format!("{site} to AS {asn}: {text}"));
        }
    }
    if parts.is_empty() {
        "all sites announce plainly".to_owned()
    } else {
        parts.join("; ")
    }
}

fn options(out: &mut String, playbook: &Playbook, tables: &Tables) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>Configurations for each share</h2>\n\
         <p class=\"soft\">How many configurations bring a site into each bin; open one for their names. Options: bins with a configuration.</p>\n\
         <div class=\"scroll grid\"><table>\n<thead><tr><th scope=\"col\">share</th>",
    );
    for site in playbook.sites().names() {
        write!(out, "<th scope=\"col\">{}</th>", escape(site)).ok();
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let most = tables
        .bins
        .iter()
        .flatten()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .max(1);
    for bin in (0..BINS).rev() {
        write!(out, "<tr><th scope=\"row\">{}</th>", bin_name(bin)).ok();
        for bins in &tables.bins {
            let plays = &bins[bin];
            if plays.is_empty() {
                out.push_str("<td class=\"none\" title=\"no configuration\">–</td>");
                continue;
            }
            let shade = Shade::of(plays.len() as f64 / most as f64);
            let names: Vec<String> = plays
                .iter()
                .map(|play| escape(&playbook.plays()[*play].routing.name))
                .collect();
            write!(
                out,
                "<td class=\"{}\" style=\"{}\"><details><summary>{}</summary>{}</details></td>",
                shade.classes(),
                shade.style(),
                plays.len(),
                names.join("<br/>")
            )
            .ok();
        }
        out.push_str("</tr>\n");
    }
    out.push_str("<tr class=\"sum\"><th scope=\"row\">options</th>");
    for reach in &tables.reach {
        write!(out, "<td>{}</td>", reach.options).ok();
    }
    out.push_str("</tr>\n</tbody>\n</table></div>\n</figure>\n");
}

fn reach(out: &mut String, playbook: &Playbook, tables: &Tables) {
    out.push_str(
        "<figure class=\"wide\">\n<h2>What can be reached</h2>\n<p class=\"soft\">Short of withdrawing the site.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">site</th><th scope=\"col\">baseline</th><th scope=\"col\">floor</th>\
         <th scope=\"col\">by</th><th scope=\"col\">ceiling</th><th scope=\"col\">by</th><th scope=\"col\">no configuration for</th>\
         <th scope=\"col\">stays</th><th scope=\"col\">never there</th></tr></thead>\n<tbody>\n",
    );
    let name = |play: usize| escape(&playbook.plays()[play].routing.name);
    for site in playbook.sites().ids() {
        let reach = &tables.reach[site.index()];
        let stuck = tables.stuck.as_ref().map(|stuck| stuck[site.index()]);
        let share = |part: Option<f64>| part.map_or_else(|| "not known".to_owned(), percent);
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(playbook.sites().name(site)),
            percent(reach.baseline),
            percent(reach.floor.share),
            name(reach.floor.play),
            percent(reach.ceiling.share),
            name(reach.ceiling.play),
            if reach.empty.is_empty() { "–".to_owned() } else { runs(&reach.empty) },
            share(stuck.map(|stuck| stuck.stays)),
            share(stuck.map(|stuck| stuck.never)),
        )
        .ok();
    }
    out.push_str("</tbody>\n</table></div>\n<p class=\"soft\">");
    out.push_str(if tables.stuck.is_some() {
        "Stays: stuck at the site whatever is announced, short of its withdrawal."
    } else {
        "What stays and what is never there is not known, as single blocks are not; floor and ceiling are bounds for them."
    });
    out.push_str("</p>\n</figure>\n");
}

fn poisons(out: &mut String, judgements: &[Judgement]) {
    if judgements.is_empty() {
        return;
    }
    out.push_str(
        "<figure class=\"wide\">\n<h2>Poisons against their controls</h2>\n\
         <p class=\"soft\">A control is a prepend of the same length: what a poison does beyond it is the poison's own effect.</p>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">poison</th><th scope=\"col\">site</th><th scope=\"col\">share</th>\
         <th scope=\"col\">control</th><th scope=\"col\">its share</th><th scope=\"col\">verdict</th><th scope=\"col\" class=\"why\">why</th></tr></thead>\n<tbody>\n",
    );
    for j in judgements {
        let class = match j.verdict {
            Verdict::Effective => "tag good",
            Verdict::Filtered => "tag warn",
            Verdict::Ineffective | Verdict::Untested => "tag",
        };
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><span class=\"{class}\">{}</span></td><td class=\"why\">{}</td></tr>",
            escape(&j.configuration),
            escape(&j.site),
            percent(j.share),
            j.control.as_deref().map_or_else(|| "–".to_owned(), escape),
            if j.control.is_some() { percent(j.control_share) } else { "–".to_owned() },
            j.verdict.name(),
            escape(&j.why),
        )
        .ok();
    }
    out.push_str("</tbody>\n</table></div>\n</figure>\n");
}

#[cfg(test)]
mod tests {
    use levee_policy::reroute::{Play, Routing, Sites};

    use super::super::judge::{Control, judge};
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let evil = "<script>\"&'";
        let play = |name: &str, blocks: [u64; 2]| Play {
            routing: Routing {
                name: name.to_owned(),
                announcements: None,
            },
            blocks: blocks.to_vec(),
            unknown: 3,
            load: None,
            partial: false,
            ineffective: false,
        };
        let plays = vec![play("baseline", [600, 400]), play(evil, [100, 900])];
        let playbook = Playbook::new(Sites::new([evil, "B"]).unwrap(), plays, None).unwrap();
        let tables = Tables::of(&playbook);
        let html = page(
            evil,
            &playbook,
            &tables,
            &judge(&playbook, Control::Prepend),
            "",
        );
        assert_eq!(html.matches("<script>").count(), 1);
        assert!(html.contains("title=\"&lt;script&gt;&quot;&amp;' under &lt;script&gt;&quot;&amp;': 10.0%, 100 blocks, -50.0 points against the baseline\""));
        // One document that needs nothing from elsewhere.
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
