import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { withProgress } from '../../cell';
import {
  CLAIMS,
  type ClaimCheck,
  type ClaimEntry,
  checkClaims,
  claimsLab,
  claimsOfTable,
  claimsTable,
  countVerdicts,
  documentTable,
  type Finding,
  mutateClaims,
  numberOf,
  PLAN_LAB,
  type RecordedRuns,
  recordedRuns,
  recordRuns,
  selectClaims,
  surveyClaims,
  verdictText,
} from '../../claims';
import { ConfigError, ShardlabError } from '../../core';
import { counted, createTable, type Table } from '../../figures';
import { addTableOptions, type TableOptions, tableForm } from '../arguments';
import { processorName } from '../doctor/checks';
import { INSTALLATION } from '../install/kernelspec-folder';
import { type ExitStatus, type Io, type Output, orFail, type Perform, progressOn } from '../io';

interface ClaimsOptions extends TableOptions {
  /** Whether new runs are made; false with --no-runs. */
  readonly runs: boolean;
  readonly record?: boolean;
  readonly mutate?: boolean;
  readonly table?: string;
}

/** `shardlab claims`: checks the documents' statements again. The exit status is 1 if a verdict's evidence no longer holds. */
export function declareClaims(command: Command, perform: Perform, io: Io): void {
  addTableOptions(command)
    .argument('[id...]', "ids of claims; '*' stands for any text, as in wan.mem.*")
    .option('--no-runs', 'makes no new runs; uses the recorded results of earlier runs')
    .option('--record', 'stores the results of the runs, for --no-runs and notebooks')
    .option(
      '--mutate',
      'multiplies each piece of evidence by factors from 0 to 10, and lists the verdicts that no factor changes',
    )
    .option(
      '--table <name>',
      'shows one table of a document (memory, tuning, …) with the numbers of the recorded runs',
    );
  perform<ClaimsOptions>(command, async (ids, options, output) => {
    const form = tableForm(options, output);
    const entries = selectClaims(CLAIMS, ids);
    if (options.mutate === true) return mutate(entries, output, io);
    if (options.table !== undefined) return showTable(options.table, entries, output, form);
    if (options.record === true) requireOneMachine(entries, recordedRuns, processorName());
    const runs = options.runs || options.record === true ? await fresh(entries, io) : recordedRuns;
    if (options.record === true) requireQuiet(runs);
    if (options.record === true) output.note(`recorded in ${storeRecorded(runs)}`);
    const checks = checkClaims(entries, PLAN_LAB, runs);
    output.answer(asJson(checks, runs), () =>
      form === undefined
        ? asText(checks)
        : form(options.csv === true ? claimsTable(checks) : shortTable(checks)),
    );
    const changed = checks.filter(({ holds }) => !holds);
    for (const { claim, change } of changed) output.note(`shardlab: ${claim.id} no longer holds: ${change}`);
    return changed.length === 0 ? 0 : 1;
  });
}

function showTable(
  name: string,
  entries: readonly ClaimEntry[],
  output: Output,
  form: ReturnType<typeof tableForm>,
): ExitStatus {
  const inTable = claimsOfTable(name);
  const shown = entries.filter(({ claim }) => inTable.has(claim.id));
  const table = documentTable(name, surveyClaims(shown, PLAN_LAB, recordedRuns));
  const { title, rows } = table;
  output.answer({ title, columns: table.columns.map(({ key }) => key), rows }, () =>
    form === undefined ? table.toText() : form(table),
  );
  return 0;
}

/** Lists the verdicts that stay the same under every change of evidence. The exit status is 1 if one of them is not judged. */
async function mutate(entries: readonly ClaimEntry[], output: Output, io: Io): Promise<ExitStatus> {
  const mutations = await withProgress(
    'scaling evidence',
    'claims',
    (show) => mutateClaims(entries, PLAN_LAB, recordedRuns, (done, total, id) => show(done, total, id)),
    progressOn(io),
  );
  const unmoved = mutations.filter(({ move }) => move === undefined);
  const derived = unmoved.filter(({ judged }) => judged === undefined);
  const answer = {
    holds: derived.length === 0,
    moved: mutations.length - unmoved.length,
    judged: unmoved.length - derived.length,
    unmoved: derived.map(({ id }) => id),
    claims: mutations.map(({ judged, move, ...rest }) => ({
      ...rest,
      judged: judged ?? null,
      move: move ?? null,
    })),
  };
  output.answer(answer, () => {
    const rows = unmoved.map(({ id, verdict, judged }) => ({ id, verdict, judged: judged ?? 'NOT JUDGED' }));
    const title = `${counted(mutations.length, 'verdict')}: ${answer.moved} change with their evidence, ${answer.judged} are judged, ${derived.length} have no evidence`;
    const columns = ['id', 'verdict', 'judged'].map((key) => ({ key }));
    return rows.length === 0 ? title : createTable(rows, { title, columns }).toText(rows.length);
  });
  for (const { id } of derived)
    output.note(`shardlab: ${id} does not change with its evidence, and is not judged`);
  return derived.length === 0 ? 0 : 1;
}

/** Returns the recorded runs, after a new run of each experiment that these claims need. */
async function fresh(entries: readonly ClaimEntry[], io: Io): Promise<RecordedRuns> {
  if (entries.every(({ experiment }) => experiment === undefined)) return recordedRuns;
  const lab = claimsLab();
  try {
    const { experiments, busy } = await withProgress(
      'checking claims',
      'experiments',
      (show) => recordRuns(entries, lab, (name, done, total) => show(done, total, name)),
      progressOn(io),
    );
    const date = new Date().toISOString().slice(0, 10);
    return {
      processor: processorName(),
      date,
      experiments: { ...recordedRuns.experiments, ...experiments },
      busy,
    };
  } finally {
    await lab.close();
  }
}

function asJson(
  checks: readonly ClaimCheck[],
  { processor, date }: RecordedRuns,
): Readonly<Record<string, unknown>> {
  return {
    holds: checks.every(({ holds }) => holds),
    counts: countVerdicts(checks.filter(isJudged)),
    runs: { processor, date },
    claims: checks.map(({ claim, finding, holds, change, unjudged }) => ({
      ...claim,
      verdict: unjudged === '' ? finding.verdict : 'not judged',
      found: numberOf(finding),
      predicted: finding.predicted ?? null,
      measured: finding.measured ?? null,
      found_unit: finding.unit,
      by: finding.by,
      reading: finding.reading,
      why: finding.why,
      evidence: finding.evidence,
      judged: finding.judged ?? null,
      follows: finding.follows ?? null,
      ...moreOf(finding),
      holds,
      change,
      unjudged,
    })),
  };
}

function isJudged({ unjudged }: ClaimCheck): boolean {
  return unjudged === '';
}

/** Returns the text of the checks: one claim in full, with its evidence, or several claims as a table. */
function asText(checks: readonly ClaimCheck[]): string {
  const [only] = checks;
  if (only !== undefined && checks.length === 1) return oneClaim(only);
  return shortTable(checks).toText(checks.length);
}

/** Returns a table of the checks with the columns that fit on a page. */
function shortTable(checks: readonly ClaimCheck[]): Table {
  const rows = claimsTable(checks).rows.map((row, i) => {
    const unjudged = checks[i]?.unjudged ?? '';
    return unjudged === ''
      ? row
      : { ...row, verdict: 'not judged', detail: unjudged.slice('not judged: '.length) };
  });
  const columns = ['id', 'documented', 'found', 'verdict', 'detail'].map((key) => ({ key }));
  const judged = checks.filter(isJudged);
  const words = Object.entries(countVerdicts(judged));
  if (judged.length < checks.length) words.push(['not judged', checks.length - judged.length]);
  const counts = words.map(([verdict, count]) => `${count} ${verdict}`);
  const title = `${counted(checks.length, 'claim')}: ${counts.join(', ')}`;
  return createTable(rows, { title, columns });
}

/** Returns the fields that only some verdicts have. */
function moreOf(finding: Finding): Readonly<Record<string, string>> {
  switch (finding.verdict) {
    case 'holds partly':
      return { part: finding.part };
    case 'holds only if':
      return { condition: finding.condition, otherwise: finding.otherwise };
    case 'open':
      return { needs: finding.needs, command: finding.command };
    default:
      return {};
  }
}

function oneClaim({ claim, finding, holds, change, unjudged }: ClaimCheck): string {
  const [row] = claimsTable([{ claim, finding }]).rows;
  const numberText = (word: string, value: unknown): string =>
    value === '' || value === undefined ? '' : `${word} ${value}, `;
  const numbers = `${numberText('documented', row?.documented)}${numberText('found', row?.found)}`;
  const more = Object.entries(moreOf(finding)).map(([name, text]) => `${name}: ${text}`);
  return [
    `${claim.id} (${claim.document}): ${claim.statement}`,
    unjudged === ''
      ? `${numbers}${verdictText(finding)}${finding.judged !== undefined ? ' (judged)' : ''}`
      : `${numbers}${unjudged}`,
    finding.why,
    ...more,
    ...(finding.follows === undefined
      ? []
      : [`follows claim ${finding.follows}, which judges the same number or code`]),
    ...(unjudged === '' ? [holds ? 'the evidence holds' : `the evidence no longer holds: ${change}`] : []),
    `checked by ${finding.evidence.kind}:`,
    finding.evidence.source,
  ].join('\n');
}

/** The files with the recorded runs: the repository's file, then the build's copy. */
const RECORDED_FILES = [
  join('src', 'claims', 'recorded.json'),
  join('build', 'src', 'claims', 'recorded.json'),
];

/**
 * Checks that all recorded runs will be from one processor: on another machine, all runs must be recorded again. Throws:
 * CONFIG if runs of the earlier machine would remain.
 */
export function requireOneMachine(
  entries: readonly ClaimEntry[],
  recorded: RecordedRuns,
  processor: string,
): void {
  const anew = new Set(entries.flatMap(({ experiment }) => experiment?.name ?? []));
  const kept = Object.keys(recorded.experiments).filter((name) => !anew.has(name));
  if (processor === recorded.processor || kept.length === 0) return;
  throw new ConfigError(
    `--record: ${kept.length} of the recorded runs would still be from ${recorded.processor}, but this is ${processor}; ` +
      'name no claims, so that all runs are recorded here',
  );
}

/** Throws: CONFIG if the machine was busy, because times of such runs would be recorded. */
function requireQuiet({ busy = '' }: RecordedRuns): void {
  if (busy === '') return;
  throw new ConfigError(
    `--record: ${busy}, so the times of its runs are not recorded; run it again when no other program works`,
  );
}

/** Writes runs to their files; returns the file in the repository. Throws: IO. */
function storeRecorded(runs: RecordedRuns): string {
  const paths = RECORDED_FILES.map((file) => join(INSTALLATION, file));
  const { busy: _, ...quiet } = runs;
  const text = `${JSON.stringify(quiet, null, 2)}\n`;
  orFail(
    () => paths.map((path) => writeFileSync(path, text)),
    (reason) =>
      new ShardlabError('IO', `the runs cannot be stored (${reason}); --record needs a writable clone`),
  );
  return paths[0] ?? '';
}
