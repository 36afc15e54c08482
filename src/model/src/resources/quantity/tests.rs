//! Tables from the behaviour of `resource.MustParse(x).String()` and properties of the arithmetic.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[test]
fn renders_in_canonical_form() {
    let table = [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("001", "1"),
        ("5.", "5"),
        (".5", "500m"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("12345", "12345"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("1e4", "10e3"),
        ("1e-1", "100e-3"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("1Ki", "1Ki"),
        ("1023", "1023"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("1.5Gi", "1536Mi"),
        ("-1.5Gi", "-1536Mi"),
        ("1u", "1u"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("0.0000000001Ki", "103n"),
        ("1.1Ki", "1126400m"),
        ("100k", "100k"),
        ("0.001M", "1k"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("100E", "9223372036854775807"),
        ("1e100", "9223372036854775807"),
        ("-1e100", "-9223372036854775807"),
        ("1e-100", "1e-9"),
        ("0e100", "0"),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text).to_string(), expected, "{text}");
    }
}

#[test]
fn texts_are_read_and_written_as_kubernetes_own_library_does() {
    let recorded = include_str!("../../../recorded/quantities.tsv");
    let rows = recorded.lines().filter(|line| !line.starts_with('#'));
    let wrong: Vec<String> = rows
        .filter_map(|row| {
            let (text, want) = row.split_once('\t').unwrap();
            let got = text.parse::<Quantity>().map_or("ERR".to_owned(), |quantity| quantity.to_string());
            (got != want).then(|| format!("{text}: {got}, should be {want}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn refuses_what_is_no_quantity() {
    for text in [
        "",
        " ",
        "1 ",
        " 1",
        "m",
        "-",
        "+",
        ".",
        "1.2.3",
        "1K",
        "1ki",
        "1KI",
        "1mi",
        "1e",
        "1e+",
        "1Ee3",
        "1e1.5",
        "0x10",
        "1_000",
        "٣",
        "1e99999999999",
        "--1",
        "1i",
        "1Kii",
    ] {
        assert!(text.parse::<Quantity>().is_err(), "{text:?}");
    }
}

#[test]
fn errors_say_what_to_write() {
    assert_eq!(
        "1K".parse::<Quantity>().unwrap_err().to_string(),
        "quantity `1K` has unknown suffix `K`, use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or e<n>"
    );
}

#[test]
fn conversions_round_up() {
    let table = [
        ("1n", 1, 1),
        ("1m", 1, 1),
        ("1001u", 2, 1),
        ("-1n", 0, 0),
        ("-1500m", -1500, -1),
        ("2Ki", 2_048_000, 2048),
    ];
    for (text, millis, units) in table {
        assert_eq!(parse(text).as_millis_ceil(), millis, "{text}");
        assert_eq!(parse(text).as_units_ceil(), units, "{text}");
    }
}

#[test]
fn equality_ignores_the_notation() {
    assert_eq!(parse("1Gi"), parse("1073741824"));
    assert!(parse("1G") < parse("1Gi"));
}

proptest! {
    #[test]
    fn text_round_trips(millis in any::<i64>(), bytes in any::<i64>()) {
        for quantity in [Quantity::from_millis(millis), Quantity::from_bytes(bytes)] {
            // The most negative byte count lies one beyond the cap.
            prop_assume!(quantity.nanos().abs() <= MAX_UNITS * UNIT);
            prop_assert_eq!(parse(&quantity.to_string()), quantity);
        }
    }

    #[test]
    fn a_rendering_means_what_was_read_and_settles(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|Ki|Mi|Gi|e[0-9]|e-[0-9])?") {
        let once = parse(&text).to_string();
        prop_assert_eq!(parse(&once), parse(&text));
        // Once more, because `187.5Ki` is 192000, whose text no longer says that it was binary: 192k.
        let twice = parse(&once).to_string();
        prop_assert_eq!(parse(&twice).to_string(), twice);
    }

    #[test]
    fn order_is_that_of_the_numbers(a in any::<i64>(), b in any::<i64>()) {
        prop_assert_eq!(Quantity::from_millis(a).cmp(&Quantity::from_millis(b)), a.cmp(&b));
        prop_assert_eq!(Quantity::from_units(a).cmp(&Quantity::from_bytes(b)), a.cmp(&b));
    }

    #[test]
    fn add_and_subtract_are_inverse(a in any::<i64>(), b in any::<i64>()) {
        let (a, b) = (Quantity::from_millis(a), Quantity::from_units(b));
        prop_assert_eq!(a.saturating_add(b).saturating_sub(b), a);
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
    }
}
