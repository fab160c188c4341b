//! Numbers as the TypeScript source means them.
//!
//! It has `number` where the generated schema often has `integer`. Counts are serialized as integers and deserialized
//! from any number; measures keep their fraction and are serialized without one if it is zero.

use serde::{Deserialize, Deserializer, Serializer, de};

/// A count: serialized as an integer, deserialized from any number; a fraction is cut off and a negative number becomes
/// zero.
pub(super) mod count {
    use super::*;

    pub(in crate::protocol) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u64, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        if let Some(value) = number.as_u64() {
            return Ok(value);
        }
        match number.as_f64() {
            // `as` saturates at zero and at the maximum.
            Some(value) => Ok(value as u64),
            None => Err(de::Error::custom("expected a number")),
        }
    }

    pub(in crate::protocol) fn serialize<S: Serializer>(
        value: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(*value)
    }
}

/// An optional count.
pub(super) mod maybe_count {
    use super::*;

    #[derive(Deserialize)]
    struct Count(#[serde(with = "count")] u64);

    pub(in crate::protocol) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        Ok(Option::<Count>::deserialize(deserializer)?.map(|count| count.0))
    }

    pub(in crate::protocol) fn serialize<S: Serializer>(
        value: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_u64(*value),
            None => serializer.serialize_none(),
        }
    }
}

/// A measure: `1` stays `1` and is not written as `1.0`.
pub(super) mod measure {
    use super::*;

    pub(in crate::protocol) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }

    pub(in crate::protocol) fn serialize<S: Serializer>(
        value: &f64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        // Up to 2^53 every integral f64 is exactly an i64. A fraction, -0.0 and NaN do not round-trip.
        let whole = *value as i64;
        if (whole as f64).to_bits() == value.to_bits() && value.abs() <= 9_007_199_254_740_992.0 {
            serializer.serialize_i64(whole)
        } else {
            serializer.serialize_f64(*value)
        }
    }
}

/// An optional measure.
pub(super) mod maybe_measure {
    use super::*;

    pub(in crate::protocol) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Option::<f64>::deserialize(deserializer)
    }

    pub(in crate::protocol) fn serialize<S: Serializer>(
        value: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => measure::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_measure_is_written_without_fraction() {
        let mut written = Vec::new();
        let exact = 9_007_199_254_740_992.0;
        for value in [0.0, -0.0, 1.0, -3.0, 0.5, exact, -exact, exact + 2.0, f64::NAN, f64::NEG_INFINITY] {
            measure::serialize(&value, &mut serde_json::Serializer::new(&mut written)).unwrap();
            written.push(b' ');
        }
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text, "0 -0.0 1 -3 0.5 9007199254740992 -9007199254740992 9007199254740994.0 null null ");
    }
}
