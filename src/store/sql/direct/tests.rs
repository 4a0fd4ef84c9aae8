//! What a statement is given, and what its rows are read as.

use std::time::Duration;

use super::{
    super::statement::{Statement, query},
    Access, Direct, Settings,
};

fn open(folder: &tempfile::TempDir) -> Direct {
    let path = folder.path().join("direct.db");
    std::fs::File::create(&path).unwrap();
    let settings = Settings {
        path: path.into(),
        access: Access::Write,
        busy_timeout: Duration::ZERO,
        statements_cached: 4,
        pragmas: &[("journal_mode", "WAL")],
    };
    Direct::open(&settings).unwrap()
}

#[test]
fn a_number_in_a_statement_is_a_values_place_wherever_it_stands() {
    const SWAPPED: Statement = Statement::common("SELECT $2 AS second, $1 AS first, $2 AS again");
    let folder = tempfile::tempdir().unwrap();
    let mut conn = open(&folder);
    let rows = conn.fetch(query(SWAPPED).bind(1_i64).bind("two")).unwrap();
    assert_eq!(rows[0].try_get::<i64>("first").unwrap(), 1);
    assert_eq!(rows[0].try_get::<String>("second").unwrap(), "two");
    assert_eq!(rows[0].try_get::<String>(2_usize).unwrap(), "two");
}

#[test]
fn a_value_of_another_type_and_a_column_that_is_not_there_are_errors() {
    const ONE: Statement = Statement::common("SELECT NULL AS absent, 'x' AS text");
    let folder = tempfile::tempdir().unwrap();
    let rows = open(&folder).fetch(query(ONE)).unwrap();
    assert_eq!(rows[0].try_get::<Option<i64>>("absent").unwrap(), None);
    assert!(rows[0].try_get::<i64>("absent").is_err());
    assert!(rows[0].try_get::<i64>("text").is_err());
    assert!(rows[0].try_get::<String>("other").is_err());
    assert!(rows[0].try_get::<String>(2_usize).is_err());
}

#[test]
fn a_database_that_another_writes_in_is_told_by_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(&folder), open(&folder));
    one.raw("BEGIN IMMEDIATE").unwrap();
    let error = other.raw("BEGIN IMMEDIATE").unwrap_err();
    let code = error.as_database_error().unwrap().code().unwrap();
    assert_eq!(code, "5");
    one.raw("ROLLBACK").unwrap();
    other.raw("BEGIN IMMEDIATE").unwrap();
    assert!(other.is_in_transaction());
}
