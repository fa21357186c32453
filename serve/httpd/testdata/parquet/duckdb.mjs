// Answers the queries of the standard input (a JSON array of SQL) as JSON: for each an array of rows.
import { readFileSync } from 'node:fs'
import { DuckDBInstance } from '@duckdb/node-api'

const db = await DuckDBInstance.create(':memory:', { autoinstall_known_extensions: 'false', autoload_known_extensions: 'false' })
const connection = await db.connect()
const answers = []
for (const sql of JSON.parse(readFileSync(0, 'utf8'))) {
  answers.push((await connection.runAndReadAll(sql)).getRowObjectsJson())
}
console.log(JSON.stringify(answers))
