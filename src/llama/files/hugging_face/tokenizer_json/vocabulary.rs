//! `model.vocab`: pieces with their numbers, or, in unigram models, a list of pieces with their scores.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

pub(super) enum JsonVocabulary {
    Numbered(HashMap<String, u64>),
    Scored(Vec<(String, f64)>),
}

impl<'de> Deserialize<'de> for JsonVocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonVocabulary, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = JsonVocabulary;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter
                    .write_str("pieces with their numbers, or a list of pieces with their scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonVocabulary, A::Error> {
                let mut pieces = HashMap::new();
                while let Some((piece, id)) = map.next_entry()? {
                    pieces.insert(piece, id);
                }
                Ok(JsonVocabulary::Numbered(pieces))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonVocabulary, A::Error> {
                let mut pieces = Vec::new();
                while let Some(piece) = list.next_element()? {
                    pieces.push(piece);
                }
                Ok(JsonVocabulary::Scored(pieces))
            }
        }

        deserializer.deserialize_any(Either)
    }
}
