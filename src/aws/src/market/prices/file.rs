//! The price file: what people pay, for networks without a price list and for prices that no list has.
//!
//! Lines of values separated by commas, the first of which names the columns; lines that begin with `#` mean nothing.
//! A file may be for several regions. It is used as a whole or not at all: one wrong line would make its type look
//! cheap or expensive without notice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use karpenter_model::{InstanceTypeName, Price};

use super::currency_of;

/// The columns there are. Only type and price must be there.
const COLUMNS: [&str; 6] = ["region", "partition", "currency", "date", "instance_type", "price_per_hour"];

/// Reason why a file cannot be used; prices stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the price file `{path}`")]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("cannot use the price file `{path}`: line {line}, field `{field}`: {why}")]
    Wrong { path: PathBuf, line: usize, field: &'static str, why: String },
    /// The file has no prices for this region.
    #[error("cannot use the price file `{path}`: it has no prices for region `{region}`")]
    Empty { path: PathBuf, region: String },
}

/// Contents of a file for one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Price of an hour by type.
    pub prices: BTreeMap<InstanceTypeName, Price>,
    /// The oldest date in it, if it has any.
    pub read: Option<Timestamp>,
}

/// Reads a file.
///
/// # Errors
/// When anything in it is wrong.
pub fn parse(path: &Path, text: &str, region: &str) -> Result<Contents, Error> {
    let mut lines = text.lines().zip(1..).map(|(text, line)| (text.trim(), line));
    let mut lines = lines.by_ref().filter(|(text, _)| !text.is_empty() && !text.starts_with('#'));
    let wrong = |line, (field, why)| Error::Wrong { path: path.to_owned(), line, field, why };
    let (header, line) = lines.next().ok_or_else(|| wrong(1, ("header", "the file is empty".to_owned())))?;
    let columns = columns(header).map_err(|why| wrong(line, why))?;
    let mut contents = Contents { prices: BTreeMap::new(), read: None };
    for (text, line) in lines {
        add(&mut contents, &columns, text, region).map_err(|why| wrong(line, why))?;
    }
    if contents.prices.is_empty() {
        return Err(Error::Empty { path: path.to_owned(), region: region.to_owned() });
    }
    Ok(contents)
}

/// A field and what is wrong with it.
type Wrong = (&'static str, String);

fn fields(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(|field| field.trim().trim_matches('"'))
}

fn columns(header: &str) -> Result<Vec<&'static str>, Wrong> {
    let all = COLUMNS.join("`, `");
    let known = |name: &str| COLUMNS.into_iter().find(|column| *column == name);
    let named =
        |name| known(name).ok_or_else(|| ("header", format!("`{name}` is no column; there are `{all}`")));
    let columns: Vec<&str> = fields(header).map(named).collect::<Result<_, _>>()?;
    for needed in ["instance_type", "price_per_hour"] {
        if !columns.contains(&needed) {
            return Err(("header", format!("column `{needed}` is missing")));
        }
    }
    Ok(columns)
}

fn add(contents: &mut Contents, columns: &[&'static str], text: &str, region: &str) -> Result<(), Wrong> {
    let row: Vec<&str> = fields(text).collect();
    if row.len() != columns.len() {
        let why = format!("`{text}` has {} fields, the header has {}", row.len(), columns.len());
        return Err((columns.get(row.len()).copied().unwrap_or("price_per_hour"), why));
    }
    let of = |column| columns.iter().position(|name| *name == column).map(|index| row[index]);
    if of("region").is_some_and(|other| other != region) {
        return Ok(());
    }
    let ours = currency_of(region);
    if let Some(currency) = of("currency").filter(|currency| *currency != ours) {
        return Err((
            "currency",
            format!("`{currency}` cannot be compared with spot prices, which are in {ours}"),
        ));
    }
    if let Some(date) = of("date") {
        let day = date.parse::<Date>().ok().and_then(|day| day.to_zoned(TimeZone::UTC).ok());
        let day = day.ok_or_else(|| ("date", format!("`{date}` is no date such as 2026-07-06")))?.timestamp();
        contents.read = Some(contents.read.map_or(day, |oldest| oldest.min(day)));
    }
    let name = of("instance_type").unwrap_or_default();
    if name.split_once('.').is_none_or(|(family, size)| family.is_empty() || size.is_empty()) {
        return Err(("instance_type", format!("`{name}` is no instance type such as m5.large")));
    }
    let text = of("price_per_hour").unwrap_or_default();
    let price: Price = text.parse().map_err(|error| ("price_per_hour", format!("{error}")))?;
    if price <= Price::ZERO {
        return Err(("price_per_hour", format!("`{text}` is not more than nothing")));
    }
    if contents.prices.insert(name.into(), price).is_some() {
        return Err(("instance_type", format!("`{name}` has a price in a line above")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Contents, String> {
        parse(Path::new("/prices.csv"), text, "us-iso-east-1").map_err(|error| error.to_string())
    }

    #[test]
    fn the_least_a_file_may_be_and_the_most() {
        let least = read("instance_type,price_per_hour\nm5.large,0.12\n").unwrap();
        assert_eq!((least.prices["m5.large"].to_string().as_str(), least.read), ("$0.1200", None));
        let most = "# ours\nregion,partition,currency,date,instance_type,price_per_hour\n\
            us-iso-east-1,aws-iso,USD,2026-07-06,m5.large,0.120000\n\n\
            us-iso-east-1,aws-iso,USD,2026-06-01,c5.large,\"0.11\"\n\
            cn-north-1,aws-cn,CNY,2024-11-06,m5.large,0.739000\n";
        let most = read(most).unwrap();
        assert_eq!(most.prices.len(), 2, "those of another region are left out");
        assert_eq!(most.read.unwrap().to_string(), "2026-06-01T00:00:00Z");
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_field() {
        let table = [
            ("", "line 1, field `header`: the file is empty"),
            ("type,price_per_hour\n", "line 1, field `header`: `type` is no column; there are `region`,"),
            ("instance_type\n", "line 1, field `header`: column `price_per_hour` is missing"),
            (
                "instance_type,price_per_hour\nm5.large\n",
                "line 2, field `price_per_hour`: `m5.large` has 1 fields",
            ),
            (
                "# x\ninstance_type,price_per_hour\nm5,1\n",
                "line 3, field `instance_type`: `m5` is no instance type",
            ),
            (
                "instance_type,price_per_hour\nm5.large,$1\n",
                "line 2, field `price_per_hour`: price `$1` is not a",
            ),
            (
                "instance_type,price_per_hour\nm5.large,0.0\n",
                "line 2, field `price_per_hour`: `0.0` is not more",
            ),
            (
                "instance_type,price_per_hour\nm5.large,1\nm5.large,2\n",
                "line 3, field `instance_type`: `m5.large` has",
            ),
            (
                "currency,instance_type,price_per_hour\nCNY,m5.large,1\n",
                "line 2, field `currency`: `CNY` cannot be",
            ),
            (
                "date,instance_type,price_per_hour\n6.7.26,m5.large,1\n",
                "line 2, field `date`: `6.7.26` is no date",
            ),
            ("instance_type,price_per_hour\n", "it has no prices for region `us-iso-east-1`"),
        ];
        for (text, why) in table {
            let error = read(text).unwrap_err();
            let prefix = "cannot use the price file `/prices.csv`: ";
            assert!(
                error.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(why)),
                "{text:?}: {error}"
            );
        }
    }
}
