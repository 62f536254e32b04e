import { extname, resolve } from 'node:path';
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
    .option(
      '--out <file>',
      "also writes the table into a file, in the form of the file's ending: .csv, .tex or .md",
    )
    .option('--figure <file>', 'draws the errors with their intervals into a file: .svg, .png or .json');
  perform<ReproduceOptions>(command, async ([name], options, output) => {
    if (options.all === true && name !== undefined)
      throw new ConfigError(`${name} and --all: name one table, or give --all`);
    const form = tableForm(options, output);
    requireAgreement(options);
    const view = reproduce(options.all === true ? 'all' : name);
    if (options.out !== undefined) {
      view.save(resolve(io.cwd, options.out));
      output.note(`wrote ${options.out}`);
    }
    if (options.figure !== undefined) {
      view.figure().save(resolve(io.cwd, options.figure));
      output.note(`wrote ${options.figure}`);
    }
    output.answer(asJson(view, options), () => (form === undefined ? view.toText() : form(view.table)));
    return 0;
  });
}

/** Throws: CONFIG if the ending of the file of --out is that of another form than --csv or --latex. */
function requireAgreement({ csv, latex, out }: ReproduceOptions): void {
  if (out === undefined) return;
  for (const [flag, isGiven, ending] of [
    ['--csv', csv, '.csv'],
    ['--latex', latex, '.tex'],
  ] as const) {
    if (isGiven === true && extname(out).toLowerCase() !== ending)
      throw new ConfigError(
        `${flag} and --out ${out}: the file's ending chooses its form; leave out ${flag}, or give a file that ends in ${ending}`,
      );
  }
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
    rows: rows.map((row, i) => rowAnswer(table.rows[i] ?? {}, row, all === true)),
  };
}

function tableAnswer({ medianError, heldOut, heldOutError, ...line }: TableRow): TableRow {
  return {
    ...line,
    ...{ median_error: medianError ?? null, held_out: heldOut ?? null, held_out_error: heldOutError ?? null },
  };
}

/** Returns a row of the table under the keys of JSON, with the config that was planned. */
function rowAnswer(
  cells: TableRow,
  { input }: ReproducedRow,
  isAll: boolean,
): Readonly<Record<string, unknown>> {
  const answers = Object.entries(cells).filter(
    ([key, value]) => key !== 'run' && (key !== 'table' || isAll) && (key !== 'cause' || value !== ''),
  );
  return {
    ...Object.fromEntries(answers.map(([key, value]) => [JSON_KEYS[key] ?? key, value])),
    config: input,
  };
}

/** The columns that have another key in JSON. */
const JSON_KEYS: Readonly<Record<string, string>> = { statedUnit: 'stated_unit' };
