//! The table behind each area, and the macro that makes struct and table from one declaration.

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Quantiles 0, 0.5, 0.9, 0.99 and 1 over the last ten minutes.
    Summary,
}

/// How much a user may rely on a metric (the reference's own marks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Stable,
    Beta,
    Alpha,
    /// Exported by the reference without being documented there.
    Undocumented,
    /// Kept for old dashboards.
    Deprecated,
}

/// One row of the metrics reference.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Full name, prefix included.
    pub name: &'static str,
    pub kind: Kind,
    /// Label names in the order handles take their values.
    pub labels: &'static [&'static str],
    pub stability: Stability,
    pub help: &'static str,
    /// Upper bounds of a histogram's buckets; empty for other kinds.
    pub buckets: &'static [f64],
}

/// Declares an area: `field: Kind = "full_name" ["label", ...] Stability, "help", buckets;`
macro_rules! area {
    (
        $(#[$doc:meta])*
        pub struct $area:ident {
            $( $field:ident: $kind:ident = $name:literal [$($label:literal),*] $stability:ident, $help:literal $(, $buckets:expr)?; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $area {
            $(
                #[doc = $help]
                pub $field: crate::metrics::$kind<{ let labels: &[&str] = &[$($label),*]; labels.len() }>,
            )*
        }

        impl $area {
            /// The metrics of this area, in declaration order.
            pub const TABLE: &'static [crate::metrics::Descriptor] = &[$(
                crate::metrics::area::descriptor!($kind, $name, [$($label),*], $stability, $help $(, $buckets)?),
            )*];

            pub(in crate::metrics) fn register(registry: &crate::metrics::registry::Registry) -> Self {
                Self { $(
                    $field: {
                        const ROW: &crate::metrics::Descriptor =
                            &crate::metrics::area::descriptor!($kind, $name, [$($label),*], $stability, $help $(, $buckets)?);
                        crate::metrics::$kind::register(ROW, registry)
                    },
                )* }
            }
        }
    };
}

macro_rules! descriptor {
    ($kind:ident, $name:literal, [$($label:literal),*], $stability:ident, $help:literal) => {
        crate::metrics::area::descriptor!($kind, $name, [$($label),*], $stability, $help, &[])
    };
    ($kind:ident, $name:literal, [$($label:literal),*], $stability:ident, $help:literal, $buckets:expr) => {
        crate::metrics::Descriptor {
            name: $name,
            kind: crate::metrics::$kind::<0>::KIND,
            labels: &[$($label),*],
            stability: crate::metrics::Stability::$stability,
            help: $help,
            buckets: $buckets,
        }
    };
}

pub(crate) use {area, descriptor};
