//! One plot of estimates with their intervals, as SVG: a curve for each series, a mark with whiskers for each point.

use std::fmt::Write as _;

use super::escape;

/// What one mark shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    /// The estimate.
    pub(super) estimate: f64,
    /// Lower end of its interval.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// Its name in the key.
    pub(super) name: String,
    /// Marks in order of the horizontal axis: index into [`Chart::ticks`], and the mark.
    pub(super) marks: Vec<(usize, Mark)>,
    /// The same as it was measured for real.
    pub(super) measured: Vec<(usize, Mark)>,
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chart {
    /// Above it; may be empty.
    pub(super) title: String,
    /// What it shows, for those who hear it.
    pub(super) about: String,
    /// Below the horizontal axis; may be empty.
    pub(super) x_label: String,
    /// What stands along the horizontal axis.
    pub(super) ticks: Vec<Tick>,
    /// The curves.
    pub(super) series: Vec<Series>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// What is written there.
    pub(super) label: String,
    /// Where it is; places without a number are spread evenly.
    pub(super) value: Option<f64>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;
/// Colours of report.css; further series use them again, with the other shapes.
const COLOURS: usize = 8;
/// Half the width of a whisker's end, and of a mark.
const WHISKER: f64 = 4.0;
const MARK: f64 = 3.4;
/// Series are set apart by this much, so that whiskers of one place do not lie on each other.
const APART: f64 = 5.0;

/// Half the width of a character of a label, at most: on a narrow screen letters are larger.
const HALF_CHARACTER: f64 = 4.7;
/// Between the outermost marks and the ends of the axis, at least.
const MARGIN: f64 = 24.0;

/// Where values lie in the plot.
struct Frame {
    xs: Vec<f64>,
    margin: f64,
    /// Labels of neighbours would meet: every second one stands lower.
    crowded: bool,
    low: f64,
    high: f64,
    step: f64,
}

impl Frame {
    fn new(chart: &Chart) -> Self {
        let marks = || {
            let all = chart.series.iter();
            all.flat_map(|s| s.marks.iter().chain(&s.measured))
                .map(|(_, mark)| mark)
                .filter(|m| m.estimate.is_finite())
        };
        let finite = |v: f64, or: f64| if v.is_finite() { v } else { or };
        let low = marks().map(|m| finite(m.low, m.estimate));
        let high = marks().map(|m| finite(m.high, m.estimate));
        let (low, high) = (low.fold(f64::MAX, f64::min), high.fold(f64::MIN, f64::max));
        // Shares are shown on the scale that all shares have.
        let (low, high) = match (low, high) {
            (low, high) if low > high => (0.0, 1.0),
            (low, high) if low >= 0.0 && high <= 1.0 && high > 0.05 => (0.0, 1.0),
            (low, high) if low >= 0.0 && low < high / 2.0 => (0.0, high),
            (low, high) if low < high => (low, high),
            (low, high) => (
                low - 0.5 * low.abs().max(1.0),
                high + 0.5 * high.abs().max(1.0),
            ),
        };
        let step = nice_step(high - low);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let width = |tick: &Tick| 2.0 * HALF_CHARACTER * tick.label.chars().count() as f64;
        let widest = chart.ticks.iter().map(width).fold(0.0, f64::max);
        let mut frame = Self {
            xs: positions(&chart.ticks),
            // The outermost labels stay within the picture.
            margin: (widest / 2.0 - RIGHT).clamp(MARGIN, WIDTH / 5.0),
            crowded: false,
            low,
            high,
            step,
        };
        let xs: Vec<f64> = (0..chart.ticks.len()).map(|i| frame.x(i)).collect();
        frame.crowded = xs.windows(2).any(|pair| pair[1] - pair[0] < widest);
        frame
    }

    fn x(&self, tick: usize) -> f64 {
        let at = self.xs.get(tick).copied().unwrap_or(0.5);
        LEFT + self.margin + (WIDTH - LEFT - RIGHT - 2.0 * self.margin) * at
    }

    fn y(&self, value: f64) -> f64 {
        let at = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - at)
    }
}

/// Places from 0 to 1.
fn positions(ticks: &[Tick]) -> Vec<f64> {
    let values: Option<Vec<f64>> = ticks.iter().map(|t| t.value).collect();
    let even = |i: usize| {
        if ticks.len() < 2 {
            0.5
        } else {
            i as f64 / (ticks.len() - 1) as f64
        }
    };
    let spread = values.and_then(|values| {
        let low = values.iter().copied().fold(f64::MAX, f64::min);
        let high = values.iter().copied().fold(f64::MIN, f64::max);
        (high > low && (high - low).is_finite())
            .then(|| values.iter().map(|v| (v - low) / (high - low)).collect())
    });
    spread.unwrap_or_else(|| (0..ticks.len()).map(even).collect())
}

/// A step of 1, 2 or 5 times a power of ten that gives at most eight marks.
fn nice_step(range: f64) -> f64 {
    let mut step = 10f64.powf((range.max(1e-300) / 8.0).log10().floor());
    for factor in [2.0, 2.5, 2.0, 1.0] {
        if range / step <= 8.0 {
            break;
        }
        step *= factor;
    }
    step
}

impl Chart {
    /// Writes the plot with its key as a `figure`.
    pub(super) fn write(&self, out: &mut String) {
        let frame = Frame::new(self);
        out.push_str("<figure>\n");
        if !self.title.is_empty() {
            writeln!(out, "<h2>{}</h2>", escape(&self.title)).ok();
        }
        self.key(out);
        writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}; the tables below hold the same figures\">",
            escape(&self.about),
        )
        .ok();
        self.axes(out, &frame);
        let middle = (self.series.len() as f64 - 1.0) / 2.0;
        for (i, series) in self.series.iter().enumerate() {
            let shift = (i as f64 - middle) * APART.min(40.0 / self.series.len() as f64);
            curve(out, &frame, i, shift, &series.marks);
            for (tick, mark) in &series.marks {
                point(out, &frame, i, frame.x(*tick) + shift, mark, false);
            }
            for (tick, mark) in &series.measured {
                point(out, &frame, i, frame.x(*tick) + shift + 2.0, mark, true);
            }
        }
        out.push_str("</svg>\n</figure>\n");
    }

    fn key(&self, out: &mut String) {
        out.push_str("<ul class=\"key\">");
        for (i, series) in self.series.iter().enumerate() {
            write!(
                out,
                "<li><i style=\"background:var(--c{})\"></i>{}</li>",
                i % COLOURS,
                escape(&series.name)
            )
            .ok();
        }
        if self.series.iter().any(|s| !s.measured.is_empty()) {
            out.push_str("<li>filled: predicted; hollow: measured</li>");
        }
        out.push_str("</ul>\n");
    }

    fn axes(&self, out: &mut String, frame: &Frame) {
        let right = WIDTH - RIGHT;
        let steps = ((frame.high - frame.low) / frame.step).round() as u32;
        for i in 0..=steps.min(20) {
            let value = frame.low + f64::from(i) * frame.step;
            let y = frame.y(value);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                rounded(value, frame.step)
            )
            .ok();
        }
        for (i, tick) in self.ticks.iter().enumerate() {
            writeln!(
                out,
                "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                frame.x(i),
                HEIGHT - BOTTOM
                    + if frame.crowded && i % 2 == 1 {
                        31.0
                    } else {
                        16.0
                    },
                escape(&tick.label)
            )
            .ok();
        }
        writeln!(
            out,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x_label)
        )
        .ok();
    }
}

/// As many digits as the step has.
fn rounded(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    // No minus before a zero.
    format!(
        "{:.digits$}",
        if value.abs() < step / 2.0 { 0.0 } else { value }
    )
}

fn curve(out: &mut String, frame: &Frame, i: usize, shift: f64, marks: &[(usize, Mark)]) {
    let mut step = 'M';
    let mut path = String::new();
    for (tick, mark) in marks.iter().filter(|(_, m)| m.estimate.is_finite()) {
        write!(
            path,
            "{step}{:.1} {:.1}",
            frame.x(*tick) + shift,
            frame.y(mark.estimate)
        )
        .ok();
        step = 'L';
    }
    writeln!(
        out,
        "<path style=\"fill:none;stroke:var(--c{});stroke-width:1.5\" d=\"{path}\"/>",
        i % COLOURS
    )
    .ok();
}

fn point(out: &mut String, frame: &Frame, i: usize, x: f64, mark: &Mark, hollow: bool) {
    if !mark.estimate.is_finite() {
        return;
    }
    let y = frame.y(mark.estimate);
    let colour = format!("var(--c{})", i % COLOURS);
    if mark.low.is_finite() && mark.high.is_finite() {
        let (top, bottom) = (frame.y(mark.high), frame.y(mark.low));
        let dash = if hollow { ";stroke-dasharray:2 2" } else { "" };
        writeln!(
            out,
            "<path style=\"stroke:{colour};stroke-width:1.2;fill:none{dash}\" d=\"M{a:.1} {top:.1}H{b:.1}M{x:.1} {top:.1}V{bottom:.1}M{a:.1} {bottom:.1}H{b:.1}\"/>",
            a = x - WHISKER,
            b = x + WHISKER,
        )
        .ok();
    }
    let fill = if hollow { "var(--card)" } else { &colour };
    let style = format!("style=\"fill:{fill};stroke:{colour};stroke-width:1.3\"");
    // Shapes tell series apart where colours do not.
    let shape = match i % 3 {
        0 => format!("<circle {style} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{MARK}\"/>"),
        1 => format!(
            "<path {style} d=\"M{:.1} {:.1}H{:.1}V{:.1}H{:.1}Z\"/>",
            x - MARK,
            y - MARK,
            x + MARK,
            y + MARK,
            x - MARK
        ),
        _ => format!(
            "<path {style} d=\"M{x:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
            y - MARK * 1.2,
            x + MARK * 1.1,
            y + MARK,
            x - MARK * 1.1,
            y + MARK
        ),
    };
    out.push_str(&shape);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(estimate: f64) -> Mark {
        Mark {
            estimate,
            low: estimate - 0.02,
            high: estimate + 0.02,
        }
    }

    fn chart(values: &[f64]) -> Chart {
        Chart {
            title: "complete <b>".into(),
            about: "complete".into(),
            x_label: "attack.share".into(),
            ticks: (0..values.len())
                .map(|i| Tick {
                    label: i.to_string(),
                    value: Some(i as f64),
                })
                .collect(),
            series: vec![Series {
                name: "a & b".into(),
                marks: values.iter().map(|v| mark(*v)).enumerate().collect(),
                measured: vec![(0, mark(0.4))],
            }],
        }
    }

    #[test]
    fn marks_lie_in_the_frame_where_their_values_are() {
        let mut svg = String::new();
        let chart = chart(&[0.25, 0.75, f64::NAN]);
        chart.write(&mut svg);
        let frame = Frame::new(&chart);
        // 0.25 and 0.75 on a scale from 0 to 1.
        let height = HEIGHT - TOP - BOTTOM;
        assert!((frame.y(0.25) - (TOP + 0.75 * height)).abs() < 1e-9);
        assert!(svg.contains(&format!(
            "M{:.1} {:.1}L{:.1} {:.1}\"",
            frame.x(0),
            frame.y(0.25),
            frame.x(1),
            frame.y(0.75)
        )));
        assert!(svg.contains("complete &lt;b&gt;") && svg.contains("a &amp; b"));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn labels_stay_in_the_picture_and_do_not_meet() {
        let long = |count: usize| {
            let mut chart = chart(&vec![0.5; count]);
            for tick in &mut chart.ticks {
                (tick.label, tick.value) = ("seven-roulette".into(), None);
            }
            chart
        };
        let half = 14.0 * HALF_CHARACTER;
        for (count, crowded) in [(1, false), (3, false), (6, true)] {
            let frame = Frame::new(&long(count));
            assert!(frame.x(count - 1) + half <= WIDTH && frame.x(0) - half >= 0.0);
            assert_eq!(frame.crowded, crowded, "{count}");
        }
        assert!(!Frame::new(&chart(&[0.1, 0.2, 0.3])).crowded);
    }

    #[test]
    fn the_scale_has_round_marks_and_holds_all_values() {
        for (range, step) in [
            (1.0, 0.2),
            (8.0, 1.0),
            (0.03, 0.005),
            (37.0, 5.0),
            (1e6, 2e5),
        ] {
            let found = nice_step(range);
            assert!((found / step - 1.0).abs() < 1e-9, "{range}: {found}");
        }
        let wide = Frame::new(&chart(&[20.0, 23.5]));
        assert!(
            wide.low <= 19.98 && wide.high >= 23.52,
            "{} {}",
            wide.low,
            wide.high
        );
        let flat = Frame::new(&Chart {
            series: Vec::new(),
            ..chart(&[])
        });
        assert!((flat.low, flat.high) == (0.0, 1.0));
    }
}
