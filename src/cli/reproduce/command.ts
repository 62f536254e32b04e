import { resolve } from 'node:path';
import type { Command } from 'commander';
import { type Reproduced, reproduce } from '../../claims';
import { ConfigError } from '../../core';
import type { TableRow } from '../../figures';
import type { ReproducedRow } from '../../planner';
import { addTableOptions, type TableOptions, tableForm } from '../arguments';
import type { Io, Perform } from '../io';

interface ReproduceOptions extends TableOptions {
  readonly all?: boolean;
  readonly out?: string;
  readonly figure?: string;
}

/** `shardlab reproduce`: predicts published figures again, as a report whose exit status does not depend on the errors. */
export function declareReproduce(command: Command, perform: Perform, io: Io): void {
  command.argument('[name]', 'a published table or one of the documents (default: lists them)');
  addTableOptions(command)
    .option('--all', 'the rows of all published tables, in one table')
    .option('--out <file>', 'writes the table into a file: .csv, .tex or .md')
    .option('--figure <file>', 'draws the errors with their intervals into a file: .svg, .png or .json');
  perform<ReproduceOptions>(command, async ([name], options, output) => {
    if (options.all === true && name !== undefined)
      throw new ConfigError(`${name} and --all: name one table, or give --all`);
    const form = tableForm(options, output);
    const view = reproduce(options.all === true ? 'all' : name);
    if (options.out !== undefined) {
      view.save(resolve(io.cwd, options.out));
      output.note(`wrote ${options.out}`);
    }
    if (options.figure !== undefined) {
      view.figure().save(resolve(io.cwd, options.figure));
      output.note(`wrote ${options.figure}`);
    }
    if (form === undefined && !output.json && options.out !== undefined) return 0;
    output.answer(asJson(view, options), () => (form === undefined ? view.toText() : form(view.table)));
    return 0;
  });
}

/** Returns the list of tables, the rows of a table with the config of each, or the claims of a document. */
function asJson(view: Reproduced, { all }: ReproduceOptions): Readonly<Record<string, unknown>> {
  const { name, source, rows, table } = view;
  if (name === '') return { title: table.title, tables: table.rows.map(tableAnswer) };
  if (rows.length === 0) return { name, title: table.title, claims: table.rows };
  return {
    name,
    ...(source === undefined ? {} : { ...source }),
    summary: table.title,
    rows: rows.map((row) => rowAnswer(row, all === true)),
  };
}

function tableAnswer({ medianError, heldOut, heldOutError, ...line }: TableRow): TableRow {
  return {
    ...line,
    ...{ median_error: medianError ?? null, held_out: heldOut ?? null, held_out_error: heldOutError ?? null },
  };
}

function rowAnswer(row: ReproducedRow, isAll: boolean): Readonly<Record<string, unknown>> {
  return {
    ...(isAll ? { table: row.table } : {}),
    row: row.row,
    subject: row.subject,
    stated: row.stated,
    stated_unit: row.statedUnit,
    published: row.published,
    predicted: row.predicted,
    low: row.low,
    high: row.high,
    unit: row.unit,
    ratio: row.ratio,
    inside: row.isInside,
    constants: row.isFitted ? 'fitted' : 'held out',
    ...(row.cause === undefined ? {} : { cause: row.cause }),
    config: row.input,
  };
}
