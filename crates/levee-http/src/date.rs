//! Dates as HTTP and access logs write them, from seconds since 1970.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The last second of the year 9999, the last that four digits write.
const LAST: u64 = 253_402_300_799;

/// A moment in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    year: u32,
    /// 0 to 11.
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    /// From Thursday.
    weekday: u8,
}

impl Date {
    /// So many seconds after 1970-01-01T00:00:00Z; what is after the year 9999 is its end.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        let seconds = seconds.min(LAST);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01, so that the leap day ends a year (H. Hinnant, "chrono-compatible low-level date algorithms").
        let z = days + 719_468;
        let (era, of_era) = (z / 146_097, z % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = (from_march + 2) % 12;
        let year = year_of_era + era * 400 + u64::from(month < 2);
        Self {
            year: year as u32,
            month: month as u8,
            day: day as u8,
            hour: (second / 3_600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
            weekday: (days % 7) as u8,
        }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, as the Date field has it (RFC 9110 section 5.6.7).
    #[must_use]
    pub fn imf_fixdate(self) -> [u8; 29] {
        let mut text = *b"Day, 00 Mon 0000 00:00:00 GMT";
        put(&mut text, 0, DAYS[usize::from(self.weekday) % 7].as_bytes());
        two(&mut text, 5, self.day);
        put(
            &mut text,
            8,
            MONTHS[usize::from(self.month) % 12].as_bytes(),
        );
        self.year(&mut text, 12);
        self.time(&mut text, 17);
        text
    }

    /// `06/Nov/1994:08:49:37 +0000`, as the common and combined log formats have it.
    #[must_use]
    pub fn common_log(self) -> [u8; 26] {
        let mut text = *b"00/Mon/0000:00:00:00 +0000";
        two(&mut text, 0, self.day);
        put(
            &mut text,
            3,
            MONTHS[usize::from(self.month) % 12].as_bytes(),
        );
        self.year(&mut text, 7);
        self.time(&mut text, 12);
        text
    }

    /// `1994-11-06T08:49:37Z` (RFC 3339).
    #[must_use]
    pub fn rfc3339(self) -> [u8; 20] {
        let mut text = *b"0000-00-00T00:00:00Z";
        self.year(&mut text, 0);
        two(&mut text, 5, self.month + 1);
        two(&mut text, 8, self.day);
        self.time(&mut text, 11);
        text
    }

    fn year(self, text: &mut [u8], at: usize) {
        two(text, at, (self.year / 100) as u8);
        two(text, at + 2, (self.year % 100) as u8);
    }

    fn time(self, text: &mut [u8], at: usize) {
        two(text, at, self.hour);
        two(text, at + 3, self.minute);
        two(text, at + 6, self.second);
    }
}

fn two(text: &mut [u8], at: usize, n: u8) {
    put(text, at, &[b'0' + n / 10, b'0' + n % 10]);
}

fn put(text: &mut [u8], at: usize, part: &[u8]) {
    if let Some(place) = text.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |seconds, fixdate: &str, log: &str, iso: &str| {
            let date = Date::from_unix(seconds);
            assert_eq!(date.imf_fixdate(), fixdate.as_bytes());
            assert_eq!(date.common_log(), log.as_bytes());
            assert_eq!(date.rfc3339(), iso.as_bytes());
        };
        check(
            0,
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "01/Jan/1970:00:00:00 +0000",
            "1970-01-01T00:00:00Z",
        );
        // RFC 9110's example.
        check(
            784_111_777,
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "06/Nov/1994:08:49:37 +0000",
            "1994-11-06T08:49:37Z",
        );
        check(
            951_782_399,
            "Mon, 28 Feb 2000 23:59:59 GMT",
            "28/Feb/2000:23:59:59 +0000",
            "2000-02-28T23:59:59Z",
        );
        check(
            951_782_400,
            "Tue, 29 Feb 2000 00:00:00 GMT",
            "29/Feb/2000:00:00:00 +0000",
            "2000-02-29T00:00:00Z",
        );
        check(
            4_107_542_399,
            "Sun, 28 Feb 2100 23:59:59 GMT",
            "28/Feb/2100:23:59:59 +0000",
            "2100-02-28T23:59:59Z",
        );
        check(
            4_107_542_400,
            "Mon, 01 Mar 2100 00:00:00 GMT",
            "01/Mar/2100:00:00:00 +0000",
            "2100-03-01T00:00:00Z",
        );
        let last = "Fri, 31 Dec 9999 23:59:59 GMT";
        check(
            LAST,
            last,
            "31/Dec/9999:23:59:59 +0000",
            "9999-12-31T23:59:59Z",
        );
        check(
            u64::MAX,
            last,
            "31/Dec/9999:23:59:59 +0000",
            "9999-12-31T23:59:59Z",
        );
    }

    /// Day by day against a calendar that counts.
    #[test]
    fn every_day_to_2400() {
        let (mut year, mut month, mut day) = (1970, 0, 1);
        for days in 0..157_000u64 {
            let date = Date::from_unix(days * 86_400 + 86_399);
            assert_eq!(
                (date.year, date.month, date.day),
                (year, month, day),
                "day {days}"
            );
            assert_eq!(u64::from(date.weekday), days % 7);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                1 => 28 + u8::from(leap),
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                day = 1;
                month += 1;
            }
            if month == 12 {
                month = 0;
                year += 1;
            }
        }
    }
}
