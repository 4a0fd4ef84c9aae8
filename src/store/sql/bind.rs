//! Rows as values that are bound: what a row serializes to, in the order of a statement's columns.

use std::fmt::Display;

use serde::{
    Serialize, Serializer,
    ser::{Error as _, Impossible, SerializeStruct},
};

use super::statement::Bound;

type Error = serde_json::Error;

/// The values of these rows, one row after the other, each followed by its place in the set. A field
/// that is no column of the statement is left out.
pub(super) fn values<R: Serialize>(
    columns: &[&'static str],
    rows: &[R],
    first_place: usize,
) -> Result<Vec<Bound>, Error> {
    let width = columns.len() + 1;
    let mut bound = Vec::with_capacity(rows.len() * width);
    for (n, row) in rows.iter().enumerate() {
        let begin = n * width;
        bound.resize(begin + columns.len(), Bound::Number(None));
        row.serialize(Row {
            columns,
            next: 0,
            values: &mut bound[begin..],
        })?;
        bound.push(Bound::Number(i64::try_from(first_place + n).ok()));
    }
    Ok(bound)
}

/// One row on its way to its values.
struct Row<'v> {
    columns: &'v [&'static str],
    /// The column that the next field should be, if its fields are in the columns' order.
    next: usize,
    values: &'v mut [Bound],
}

impl SerializeStruct for Row<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let (before, after) = self.columns.split_at(self.next);
        let mut places = after.iter().chain(before);
        let Some(ahead) = places.position(|column| *column == name) else {
            return Ok(());
        };
        let place = (self.next + ahead) % self.columns.len();
        self.values[place] = value.serialize(Value)?;
        self.next = (place + 1) % self.columns.len();
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

/// One field on its way to its value.
struct Value;

fn refused<T>(what: impl Display) -> Result<T, Error> {
    Err(Error::custom(format_args!("{what} cannot be bound")))
}

/// What neither a row nor a field is.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*) $(-> $answer:ty)?;)+) => {
        $(fn $method(self, $(_: $argument),*) -> Result<refuse!(@answer $($answer)?), Error> {
            refused(stringify!($method))
        })+
    };
    (@answer $answer:ty) => { $answer };
    (@answer) => { Self::Ok };
}

/// What is neither, by its type.
macro_rules! refuse_compounds {
    () => {
        type SerializeSeq = Impossible<Self::Ok, Error>;
        type SerializeTuple = Impossible<Self::Ok, Error>;
        type SerializeTupleStruct = Impossible<Self::Ok, Error>;
        type SerializeTupleVariant = Impossible<Self::Ok, Error>;
        type SerializeMap = Impossible<Self::Ok, Error>;
        type SerializeStructVariant = Impossible<Self::Ok, Error>;

        refuse! {
            serialize_i8(i8);
            serialize_i16(i16);
            serialize_u8(u8);
            serialize_u16(u16);
            serialize_f32(f32);
            serialize_f64(f64);
            serialize_char(char);
            serialize_bytes(&[u8]);
            serialize_unit();
            serialize_unit_struct(&'static str);
            serialize_unit_variant(&'static str, u32, &'static str);
            serialize_seq(Option<usize>) -> Self::SerializeSeq;
            serialize_tuple(usize) -> Self::SerializeTuple;
            serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
            serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
            serialize_map(Option<usize>) -> Self::SerializeMap;
            serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
        }

        fn serialize_newtype_struct<T: Serialize + ?Sized>(
            self,
            _: &'static str,
            value: &T,
        ) -> Result<Self::Ok, Error> {
            value.serialize(self)
        }

        fn serialize_newtype_variant<T: Serialize + ?Sized>(
            self,
            name: &'static str,
            _: u32,
            _: &'static str,
            _: &T,
        ) -> Result<Self::Ok, Error> {
            refused(name)
        }
    };
}

impl<'v> Serializer for Row<'v> {
    type Ok = ();
    type Error = Error;
    type SerializeStruct = Row<'v>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Error> {
        Ok(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    refuse_compounds!();

    refuse! {
        serialize_bool(bool);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_str(&str);
        serialize_none();
    }
}

impl Serializer for Value {
    type Ok = Bound;
    type Error = Error;
    type SerializeStruct = Impossible<Bound, Error>;

    fn serialize_bool(self, value: bool) -> Result<Bound, Error> {
        Ok(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<Bound, Error> {
        Ok(i64::from(value).into())
    }

    fn serialize_i64(self, value: i64) -> Result<Bound, Error> {
        Ok(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<Bound, Error> {
        Ok(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<Bound, Error> {
        match i64::try_from(value) {
            Ok(value) => Ok(value.into()),
            Err(_) => refused(value),
        }
    }

    fn serialize_str(self, value: &str) -> Result<Bound, Error> {
        Ok(value.into())
    }

    fn serialize_none(self) -> Result<Bound, Error> {
        Ok(Bound::Number(None))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Bound, Error> {
        value.serialize(self)
    }

    refuse_compounds!();

    refuse! {
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Example {
        text: &'static str,
        flag: bool,
        number: Option<i64>,
        nothing: Option<String>,
        beside: u32,
    }

    const EXAMPLE: Example = Example {
        text: "a \"text\"",
        flag: true,
        number: Some(7),
        nothing: None,
        beside: 1,
    };

    fn spelled(values: &[Bound]) -> Vec<String> {
        values.iter().map(|value| format!("{value:?}")).collect()
    }

    #[test]
    fn fields_are_bound_in_the_order_of_the_columns_with_their_place() {
        let found = values(&["number", "nothing", "text", "flag"], &[EXAMPLE], 3).unwrap();
        let expected = [
            Bound::from(7_i64),
            Bound::Number(None),
            Bound::from("a \"text\""),
            Bound::from(true),
            Bound::from(3_i64),
        ];
        assert_eq!(spelled(&found), spelled(&expected));
    }

    #[test]
    fn a_column_without_a_field_is_null() {
        let found = values(&["text", "missing"], &[EXAMPLE, EXAMPLE], 0).unwrap();
        let row = |place: i64| [EXAMPLE.text.into(), Bound::Number(None), place.into()];
        assert_eq!(spelled(&found), spelled(&[row(0), row(1)].concat()));
    }

    #[test]
    fn what_is_no_row_of_plain_values_is_refused() {
        #[derive(Serialize)]
        struct Deep {
            list: Vec<i64>,
        }
        let error = values(&["list"], &[Deep { list: vec![1] }], 0).unwrap_err();
        assert_eq!(error.to_string(), "serialize_seq cannot be bound");
        assert!(values(&["number"], &[7], 0).is_err());
    }
}
