import type { TranslatedEntry } from './rows/meant';
import type { LineEffect, Place } from './rows/reading';
import { type Together, whereOf } from './together';

/** Results of checking the numbers of ranks, machines and rows together. */
interface PlaceFindings {
  /** The errors in lines that give these numbers. */
  readonly findings: ReadonlyMap<TranslatedEntry, LineEffect>;
  /** Settings that follow from the number of rows per step, each with the line that has this number. */
  readonly derived: readonly Derived[];
}

interface Derived {
  readonly path: 'batch' | 'accumulation' | 'parallel.microbatches';
  readonly value: number;
  readonly by: TranslatedEntry;
}

/** Checks that the numbers of processes, machines, degrees and rows agree, and divides the rows of a step over ranks. */
export function placeFindings(meant: readonly TranslatedEntry[], said: Together): PlaceFindings {
  const findings = new Map<TranslatedEntry, LineEffect>();
  const wrong = (by: TranslatedEntry | undefined, why: string): void => {
    if (by !== undefined && !findings.has(by)) findings.set(by, { effect: 'error', why });
  };
  const lineOf = (key: keyof Place): TranslatedEntry | undefined =>
    meant.findLast(({ meaning }) => meaning.place?.[key] !== undefined);
  const { world, machines = 1, ranksPerMachine } = said.place;
  const worldLine = lineOf('world') ?? lineOf('ranksPerMachine');
  if (world !== undefined && world % machines !== 0)
    wrong(
      worldLine,
      `${world} processes are not divisible by ${machines} machines (${nameOf(lineOf('machines'))}); give a multiple of ${machines}`,
    );
  if (world !== undefined && ranksPerMachine !== undefined && world !== machines * ranksPerMachine)
    wrong(
      worldLine,
      `${world} processes are not ${machines} machines x ${ranksPerMachine} processes = ${machines * ranksPerMachine} (${nameOf(lineOf('machines'))}, ${nameOf(lineOf('ranksPerMachine'))}); change one of them`,
    );
  const line = lineOf('globalBatch');
  const derived = derivedOf(inPipeline(said), { world, line, findings, wrong });
  if (derived === null) return { findings, derived: usualPasses(said, lineOf('usualRows')) };
  const micro = microbatches(derived, said, lineOf('microRows'));
  const isReplaced = micro.length > 0 && said.settings.has('accumulation');
  const one: Derived = { path: 'accumulation', value: 1, by: derived.by };
  return { findings, derived: [derived, ...micro, ...(isReplaced ? [one] : [])] };
}

/**
 * Returns the settings without the rows and the passes of DeepSpeed's file, if a pipeline divides the rows of a step: DeepSpeed's passes are
 * the pipeline's microbatches, which Megatron-LM's arguments give too.
 */
function inPipeline({ settings, place }: Together): Together {
  if (place.microRows === undefined || Number(settings.get('parallel.pp')?.value ?? 1) === 1)
    return { settings, place };
  const others = [...settings].filter(([path]) => path !== 'batch' && path !== 'accumulation');
  return { settings: new Map(others), place };
}

/**
 * Returns the number of passes that a program chooses if no line has this number. Source for swift: swift/trainers/arguments.py.
 */
function usualPasses({ settings, place }: Together, line: TranslatedEntry | undefined): readonly Derived[] {
  const { world, usualRows, globalBatch } = place;
  const isSaid = globalBatch !== undefined || settings.get('accumulation')?.by != null;
  if (line === undefined || usualRows === undefined || world === undefined || isSaid) return [];
  const numberAt = (path: string): number => Number(settings.get(path)?.value ?? 1);
  // swift itself divides by all processes, but ranks that share a model have the same rows.
  const copies = numberAt('parallel.tp') * numberAt('parallel.pp');
  const ranks = world / (usualRows.isPerDataRank ? copies * numberAt('parallel.cp') : copies);
  const value = Math.max(1, Math.ceil(usualRows.rows / numberAt('batch') / ranks));
  return [{ path: 'accumulation', value, by: line }];
}

/** Returns the number of microbatches of a pipeline, from the rows per rank and the rows per microbatch. */
function microbatches(
  { path, value }: Derived,
  { place }: Together,
  line: TranslatedEntry | undefined,
): readonly Derived[] {
  const { microRows } = place;
  if (path !== 'batch' || line === undefined || microRows === undefined || value % microRows !== 0) return [];
  return [{ path: 'parallel.microbatches', value: value / microRows, by: line }];
}

interface BatchFacts {
  readonly world: number | undefined;
  /** The line that has the number of rows per step. */
  readonly line: TranslatedEntry | undefined;
  readonly findings: Map<TranslatedEntry, LineEffect>;
  readonly wrong: (by: TranslatedEntry | undefined, why: string) => void;
}

/** Divides the rows of a step over ranks and passes. If the rows per rank and the passes are given too, checks that all agree. */
function derivedOf({ settings, place }: Together, facts: BatchFacts): Derived | null {
  const { world, line, findings, wrong } = facts;
  const given = (path: string): number | undefined => {
    const found = settings.get(path);
    return typeof found?.value === 'number' && found.by !== null ? found.value : undefined;
  };
  const dataRanks = dataRanksOf(settings, facts);
  const { globalBatch } = place;
  if (globalBatch === undefined || line === undefined || dataRanks === null) return null;
  const [batch, accumulation] = [given('batch'), given('accumulation')];
  if (world === undefined || dataRanks === undefined) {
    const rows = (batch ?? 1) * (accumulation ?? 1);
    if (globalBatch % rows !== 0) {
      wrong(
        line,
        `${globalBatch} rows per step are no multiple of ${batch ?? 1} rows x ${accumulation ?? 1} passes = ${rows} per rank; change one of them`,
      );
      return null;
    }
    const why = `these are the rows of all ranks per step, and no line has the number of ranks: batch is ${globalBatch} / (${accumulation ?? 1} passes x number of data-parallel ranks)`;
    findings.set(line, { effect: 'planned', why });
    return null;
  }
  const product = (batch ?? 1) * (accumulation ?? 1) * dataRanks;
  const factors = [
    ...(batch === undefined ? [] : [`${batch} rows per rank`]),
    ...(accumulation === undefined ? [] : [`${accumulation} passes`]),
    `${dataRanks} data-parallel ranks`,
  ].join(' x ');
  const rest = globalBatch / product;
  const isWhole = batch !== undefined && accumulation !== undefined ? rest === 1 : Number.isInteger(rest);
  if (!isWhole) {
    const wanted = batch !== undefined && accumulation !== undefined ? 'is not' : 'is no multiple of';
    wrong(line, `${globalBatch} ${wanted} ${factors} = ${product}; change one of them`);
    return null;
  }
  const path = batch === undefined ? 'batch' : 'accumulation';
  const isDerived = batch === undefined || accumulation === undefined;
  findings.set(line, {
    effect: 'used',
    why: isDerived ? `${path}: ${rest}, because ${rest} x ${factors} = ${globalBatch}` : `is ${factors}`,
  });
  return isDerived ? { path, value: rest, by: line } : null;
}

/**
 * Returns the number of data-parallel ranks; undefined if no line has the number of ranks; null if the degrees do not divide the
 * ranks.
 */
function dataRanksOf(
  settings: Together['settings'],
  { world, wrong }: BatchFacts,
): number | null | undefined {
  const degrees = ['tp', 'cp', 'pp'].map((key) => {
    const found = settings.get(`parallel.${key}`);
    return { key, by: found?.by ?? undefined, degree: typeof found?.value === 'number' ? found.value : 1 };
  });
  const divided = degrees.reduce((product, { degree }) => product * degree, 1);
  // The table of settings refuses a degree below 1.
  if (world === undefined || !(divided >= 1)) return undefined;
  if (world % divided === 0) return world / divided;
  const split = degrees.filter(({ degree }) => degree > 1);
  const text = split.map(({ key, degree }) => `${key} ${degree}`).join(' x ');
  const largest = split.reduce((most, one) => (one.degree > most.degree ? one : most));
  wrong(
    largest.by,
    `${text} = ${divided} ranks hold one copy of the model, and ${world} ranks are no multiple of this number; change one of them`,
  );
  return null;
}

function nameOf(meant: TranslatedEntry | undefined): string {
  return meant === undefined ? 'by default' : `${meant.entry.key}, ${whereOf(meant.entry)}`;
}
