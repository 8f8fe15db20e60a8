//! Colours of the heat map: a cell's text can be read on them, whatever the share.

/// From the card to the deepest colour, light and dark theme.
const LIGHT: [[f64; 3]; 2] = [[255.0, 255.0, 255.0], [8.0, 58.0, 104.0]];
const DARK: [[f64; 3]; 2] = [[28.0, 34.0, 38.0], [150.0, 208.0, 255.0]];
/// Between the least share and none there is a step, so that what is little is seen.
const LEAST: f64 = 0.04;

/// The colours of a cell in both themes.
pub(super) struct Shade {
    light: [u8; 3],
    dark: [u8; 3],
}

impl Shade {
    /// Of a share, 0 to 1.
    pub(super) fn of(share: f64) -> Self {
        let depth = if share > 0.0 {
            LEAST + (1.0 - LEAST) * share.min(1.0)
        } else {
            0.0
        };
        let mix = |[from, to]: [[f64; 3]; 2]| {
            std::array::from_fn(|i| (from[i] + (to[i] - from[i]) * depth).round() as u8)
        };
        Self {
            light: mix(LIGHT),
            dark: mix(DARK),
        }
    }

    pub(super) fn style(&self) -> String {
        let hex = |[r, g, b]: [u8; 3]| format!("#{r:02x}{g:02x}{b:02x}");
        format!("--l:{};--d:{}", hex(self.light), hex(self.dark))
    }

    /// `h`, and for each theme in which the text is to be white instead of black `lw`, `dw`.
    pub(super) fn classes(&self) -> &'static str {
        match (white(self.light), white(self.dark)) {
            (false, false) => "h",
            (true, false) => "h lw",
            (false, true) => "h dw",
            (true, true) => "h lw dw",
        }
    }
}

/// Whether white has more contrast than black.
fn white(colour: [u8; 3]) -> bool {
    contrast(luminance([255; 3]), luminance(colour)) > contrast(luminance(colour), 0.0)
}

/// WCAG 2.2, "contrast ratio", of the lighter and the darker.
fn contrast(lighter: f64, darker: f64) -> f64 {
    (lighter + 0.05) / (darker + 0.05)
}

/// WCAG 2.2, "relative luminance".
fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|channel| {
        let c = f64::from(channel) / 255.0;
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_can_be_read_on_every_shade() {
        for step in 0..=1_000 {
            let shade = Shade::of(f64::from(step) / 1_000.0);
            for colour in [shade.light, shade.dark] {
                let l = luminance(colour);
                let best = contrast(1.0, l).max(contrast(l, 0.0));
                assert!(best >= 4.5, "{step}: {colour:?} {best}");
            }
        }
        assert_eq!(Shade::of(0.0).classes(), "h dw");
        assert_eq!(Shade::of(1.0).classes(), "h lw");
    }
}
