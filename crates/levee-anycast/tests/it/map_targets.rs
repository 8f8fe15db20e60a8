//! What the fuzzer calls of maps, and the replay of its corpus: each takes any bytes, and asserts what must hold of them.

use std::path::Path;

use levee_anycast::map::{About, CatchmentMap, Importer, LoadMap, ReadOptions, write_csv};

/// The first byte chooses the options, the rest is the file.
fn import(bytes: &[u8]) -> Option<(CatchmentMap, Option<LoadMap>)> {
    let (choice, bytes) = bytes.split_first()?;
    let options = ReadOptions {
        site: Some("HERE".to_owned()),
        service: vec!["192.0.2.0/24".parse().expect("a prefix")],
        patterns: if choice & 2 == 0 {
            Vec::new()
        } else {
            vec![
                "ns*.{site}.k.ripe.net".parse().expect("a pattern"),
                "*=REST".parse().expect("a pattern"),
            ]
        },
        origin: (choice & 4 != 0).then_some(1),
        skip_bad: choice & 1 != 0,
        ..ReadOptions::default()
    };
    let mut importer = Importer::new(options);
    match importer.read_bytes(Path::new("f"), bytes) {
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with('f') && text.len() < 30_000, "{text}");
            None
        }
        Ok(report) => {
            let left = report.late.unwrap_or(0)
                + report.off_address.unwrap_or(0)
                + report.other
                + report.no_site;
            assert!(report.bad == 0 || choice & 1 != 0);
            assert!(left == 0 || report.records > 0, "{report:?}");
            if report.replies == 0 {
                return None;
            }
            importer.finish().ok()
        }
    }
}

/// The map adds up, and comes back from a file as it was.
fn holds((map, load): (CatchmentMap, Option<LoadMap>)) {
    let known = map.known();
    assert_eq!(map.iter().count() as u64, known);
    assert!(map.conflicts().blocks() <= known);
    for (block, seen) in map.conflicts().iter() {
        assert!(seen.len() > 1);
        assert_eq!(map.site(block), Some(seen[0].site));
    }
    let mut csv = Vec::new();
    write_csv(&map, load.as_ref(), &About::default(), &mut csv).expect("a vector takes all");
    let mut importer = Importer::new(ReadOptions::default());
    importer
        .read_bytes(Path::new("f"), &csv)
        .expect("our own form");
    let (again, _) = importer.finish().expect("sites");
    assert_eq!(again.counts(), map.counts());
    assert!(again.iter().eq(map.iter()));
}

/// Maps, replies and loads as CSV.
pub(crate) fn map_csv(bytes: &[u8]) {
    if let Some(read) = import(bytes) {
        holds(read);
    }
}

/// Maps as Parquet.
pub(crate) fn map_parquet(bytes: &[u8]) {
    if let Some(read) = import(bytes) {
        holds(read);
    }
}

/// Results of RIPE Atlas.
pub(crate) fn atlas(bytes: &[u8]) {
    if let Some(read) = import(bytes) {
        holds(read);
    }
}

/// Captures.
pub(crate) fn pcap(bytes: &[u8]) {
    if let Some(read) = import(bytes) {
        holds(read);
    }
}

#[cfg(test)]
mod replay {
    use std::path::PathBuf;

    fn corpus(name: &str, target: fn(&[u8])) {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(name);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", folder.display());
        for file in files {
            // A failed assertion names the input by this line.
            println!("{}", file.display());
            target(&std::fs::read(&file).unwrap());
        }
    }

    #[test]
    fn corpora() {
        corpus("anycast_map_csv", super::map_csv);
        corpus("anycast_map_parquet", super::map_parquet);
        corpus("anycast_atlas", super::atlas);
        corpus("anycast_pcap", super::pcap);
    }
}
