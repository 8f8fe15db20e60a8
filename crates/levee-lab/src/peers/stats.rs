//! SIPp's statistics file (`-trace_stat`): a row each second, semicolons between fields.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

/// One row: totals since the start of the SIPp process.
#[derive(Debug, Clone, PartialEq)]
pub struct StatRow {
    /// From the start of SIPp to this row.
    pub elapsed: Duration,
    /// Calls started, by this side or by the other.
    pub started: u64,
    /// Calls that SIPp holds now, those that linger after their end included.
    pub current: u64,
    /// Calls that went through the whole scenario.
    pub successful: u64,
    /// Calls that left the scenario: an unexpected message, or no answer.
    pub failed: u64,
    /// Of the failed ones, those that met a message which the scenario does not name.
    pub unexpected: u64,
    /// Messages sent again for want of an answer.
    pub retransmissions: u64,
    /// The scenario's own counters, by name.
    pub counters: BTreeMap<String, u64>,
}

impl StatRow {
    /// A counter of the scenario; 0 if it has none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// A statistics file that does not have SIPp's form.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line} of SIPp's statistics: {problem}")]
pub struct StatError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// Reads a statistics file, which may still be growing: a last line without its end is left out.
///
/// # Errors
/// [`StatError`] if a column is missing or a number is not one.
pub fn parse_stats(text: &str) -> Result<Vec<StatRow>, StatError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate();
    let Some((_, header)) = lines.next() else {
        return Ok(Vec::new());
    };
    let header: Vec<&str> = header.split(';').collect();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            let fields = line.split(';');
            let row: BTreeMap<&str, &str> = header.iter().copied().zip(fields).collect();
            parse_row(&header, &row).map_err(|problem| StatError {
                line: index + 1,
                problem,
            })
        })
        .collect()
}

/// The column after which the scenario's own counters begin, and the prefix at which they end (SIPp 3.6).
const BEFORE_COUNTERS: &str = "CallLengthStDev(C)";
const AFTER_COUNTERS: &str = "ResponseTimeRepartition";
/// How SIPp names a column of totals; `(P)` is the period since the last row.
const TOTAL: &str = "(C)";

fn parse_row(header: &[&str], row: &BTreeMap<&str, &str>) -> Result<StatRow, String> {
    let text = |column: &str| {
        row.get(column)
            .copied()
            .ok_or_else(|| format!("no column {column}"))
    };
    let number = |column: &str| {
        let value = text(column)?;
        value
            .parse::<u64>()
            .map_err(|_| format!("{column} is `{value}`: expected a whole number"))
    };
    // "date, tab, time, tab, seconds since 1970".
    let seconds = |column: &str| {
        let value = text(column)?;
        value
            .rsplit('\t')
            .next()
            .and_then(|seconds| seconds.parse::<f64>().ok())
            .ok_or_else(|| format!("{column} is `{value}`: expected seconds after the last tab"))
    };
    let elapsed = seconds("CurrentTime")? - seconds("StartTime")?;
    let counters = header
        .iter()
        .skip_while(|column| **column != BEFORE_COUNTERS)
        .skip(1)
        .take_while(|column| !column.starts_with(AFTER_COUNTERS))
        .filter_map(|column| Some((column, column.strip_suffix(TOTAL)?)))
        .map(|(column, name)| Ok((name.to_owned(), number(column)?)))
        .collect::<Result<_, String>>()?;
    Ok(StatRow {
        elapsed: Duration::try_from_secs_f64(elapsed)
            .map_err(|_| format!("CurrentTime is {elapsed} s from StartTime"))?,
        started: number("IncomingCall(C)")? + number("OutgoingCall(C)")?,
        current: number("CurrentCall")?,
        successful: number("SuccessfulCall(C)")?,
        failed: number("FailedCall(C)")?,
        unexpected: number("FailedUnexpectedMessage(C)")?,
        retransmissions: number("Retransmissions(C)")?,
        counters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "StartTime;CurrentTime;IncomingCall(C);OutgoingCall(C);CurrentCall;SuccessfulCall(C);FailedCall(C);FailedUnexpectedMessage(C);Retransmissions(C);CallLengthStDev(C);cut(P);cut(C);ResponseTimeRepartitionsetup;ResponseTimeRepartitionsetup_<1;\n";
    const ROW: &str = "2026-11-30\t07:48:50.5\t1796024930.5;2026-11-30\t07:48:58.75\t1796024938.75;0;40;24;15;1;1;2;00:00:00:786000;4;26;;0;\n";

    #[test]
    fn a_row_is_read_with_its_counters() {
        let rows = parse_stats(&format!("{HEADER}{ROW}")).unwrap();
        assert_eq!(
            rows,
            [StatRow {
                elapsed: Duration::from_millis(8250),
                started: 40,
                current: 24,
                successful: 15,
                failed: 1,
                unexpected: 1,
                retransmissions: 2,
                counters: BTreeMap::from([("cut".to_owned(), 26)]),
            }]
        );
        assert_eq!(
            (rows[0].counter("cut"), rows[0].counter("no such")),
            (26, 0)
        );
    }

    #[test]
    fn a_row_still_being_written_is_left_out() {
        let half = &ROW[..30];
        assert_eq!(
            parse_stats(&format!("{HEADER}{ROW}{half}")).unwrap().len(),
            1
        );
        assert_eq!(parse_stats("").unwrap(), []);
        assert_eq!(parse_stats(HEADER).unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let row = ROW.replace(";40;", ";many;");
        let error = parse_stats(&format!("{HEADER}{row}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of SIPp's statistics: OutgoingCall(C) is `many`: expected a whole number"
        );
        let header = HEADER.replace("CurrentCall;", "Current;");
        let error = parse_stats(&format!("{header}{ROW}")).unwrap_err();
        assert_eq!(error.problem, "no column CurrentCall");
    }
}
