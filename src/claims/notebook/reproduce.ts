import { nearest } from '../../config';
import { ConfigError, DISPLAY, type DisplayBundle, shown } from '../../core';
import {
  createTable,
  type DataFrame,
  type Figure,
  ink,
  planFigures,
  reproducedTables,
  sessionGuesses,
  type Table,
} from '../../figures';
import { type PublishedName, published, type ReproducedRow, type TableSource } from '../../planner';
import { DOCUMENTS, type DocumentName } from '../claim';
import { CLAIMS } from '../registry';
import { claims } from './claims';

/** Published figures beside what the planner predicts, or what the checks of a document find. Shown in a notebook as a table. */
export interface Reproduced {
  readonly name: string;
  /** Where the table was published; undefined for several tables and for a document. */
  readonly source: TableSource | undefined;
  /** The figures with their predictions, and the config of each; of a document, none. */
  readonly rows: readonly ReproducedRow[];
  readonly table: Table;
  /**
   * Draws predicted ÷ published of each figure with the predicted interval, by table. For a document: the documented and the found numbers
   * with their verdicts.
   */
  figure(): Figure;
  toText(): string;
  toCsv(): string;
  /** Writes the table into a .csv, .tex or .md file. Throws: CONFIG for another ending, IO if the file cannot be written. */
  save(file: string): void;
  /** Returns the table as a danfojs DataFrame. */
  frame(): Promise<DataFrame>;
  [DISPLAY](): DisplayBundle;
}

/** The name of all published tables together. */
export const ALL = 'all';

/**
 * Predicts the figures of published tables again: 'fms-fsdp', 'megatron-table-1', 'mpt', … Without a name, lists the tables with their
 * errors; the figure is then over all tables. 'all' has the rows of all tables. The name of a document ('wan22-fsdp', …) has the document's
 * claims. Throws: CONFIG with the nearest name for an unknown one.
 * @example
 * sl.planner.reproduce();
 * sl.planner.reproduce('fms-fsdp').figure();
 * sl.planner.reproduce('megatron-table-2').save('table2.tex');
 */
export function reproduce(name?: string): Reproduced {
  if (name === undefined || name === ALL) return everything(name);
  const document = DOCUMENT_NAMES.find((each) => each === name);
  return document === undefined ? oneTable(tableNamed(name)) : oneDocument(document);
}

const DOCUMENT_NAMES = Object.keys(DOCUMENTS) as readonly DocumentName[];

function tableNamed(name: string): PublishedName {
  const table = published.PUBLISHED_NAMES.find((each) => each === name);
  if (table !== undefined) return table;
  const names = [...published.PUBLISHED_NAMES, ...DOCUMENT_NAMES, ALL];
  const near = typeof name === 'string' ? nearest(name, names) : undefined;
  const hint = near === undefined ? '' : `did you mean '${near}'? `;
  throw new ConfigError(`no table is named ${shown(name)}; ${hint}choose one of ${names.join(', ')}`);
}

/** Lists all tables, or returns the rows of all tables. */
function everything(name: typeof ALL | undefined): Reproduced {
  const tables = published.PUBLISHED_NAMES.map((each) => ({
    name: each,
    rows: published.reproducedRows(each),
  }));
  const rows = tables.flatMap((each) => each.rows);
  const title = reproducedTables.summaryLine(rows);
  const table =
    name === ALL
      ? reproducedTables.reproducedTable(rows, { title, isAll: true })
      : reproducedTables.listOfTables(
          [
            ...tables.map((each) => reproducedTables.listedTable(each.name, each.rows)),
            ...DOCUMENT_NAMES.map(listedDocument),
          ],
          title,
        );
  const subtitle = `${SUBTITLE} 80% should be inside.`;
  const figure = (): Figure =>
    planFigures.reproduced(rows, {
      subtitle,
      table: name === ALL ? table : reproducedTables.reproducedTable(rows, { title, isAll: true }),
    });
  return viewOf({ name: name ?? '', source: undefined, rows, table, notes: [], figure });
}

const SUBTITLE = 'Predicted ÷ published: time of an iteration, or memory of a GPU; line: predicted interval.';

function oneTable(name: PublishedName): Reproduced {
  const rows = published.reproducedRows(name);
  const source = published.sourceOf(name);
  const title = `${source.title}: ${reproducedTables.summaryLine(rows)}`;
  const table = reproducedTables.reproducedTable(rows, { title });
  const figure = (): Figure =>
    planFigures.reproduced(rows, { subtitle: `${source.title} (${source.date}). ${SUBTITLE}`, table });
  return viewOf({ name, source, rows, table, notes: reproducedTables.sourceLines(source), figure });
}

/** Returns the claims of a document: the published numbers, the numbers that were found, and the verdicts. */
function oneDocument(name: DocumentName): Reproduced {
  const checked = claims({ document: name });
  const { columns, rows } = checked.table();
  const shownKeys = ['id', 'documented', 'found', 'ratio', 'verdict', 'by', 'why'];
  const table = createTable(rows, {
    title: `${DOCUMENTS[name]}: ${listedDocument(name).inside} of ${checked.length} claims hold`,
    columns: columns.filter(({ key }) => shownKeys.includes(key)),
  });
  const notes = ['documented ÷ found is in column ratio; shardlab claims shows the evidence of each claim'];
  return viewOf({ name, source: undefined, rows: [], table, notes, figure: () => checked.figure() });
}

/** Returns a document's line in the list of tables. Its verdicts are the stored ones, which `shardlab claims` checks. */
function listedDocument(name: DocumentName): reproducedTables.ListedTable {
  const entries = CLAIMS.filter(({ claim }) => claim.document === name);
  return {
    name,
    subject: 'claims',
    figures: entries.length,
    inside: entries.filter(({ expected }) => expected.verdict === 'holds').length,
    medianError: null,
    heldOut: null,
    heldOutError: null,
    source: `${DOCUMENTS[name]}; inside: claims that hold`,
  };
}

function viewOf({
  notes,
  figure,
  ...view
}: Pick<Reproduced, 'name' | 'source' | 'rows' | 'table' | 'figure'> & {
  readonly notes: readonly string[];
}): Reproduced {
  const { table } = view;
  const toText = (): string => [table.toText(MOST_ROWS), ...notes].join('\n');
  return {
    ...view,
    figure: () => sessionGuesses().reveal(figure()),
    toText,
    toCsv: table.toCsv,
    save: table.save,
    frame: () => table.frame(),
    [DISPLAY]: () => ({
      'text/html': `${table.toHtml()}<div>${notes.map(ink.escapeHtml).join('<br>')}</div>`,
      'text/plain': toText(),
    }),
  };
}

const MOST_ROWS = 100;
