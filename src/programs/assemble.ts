import {
  type ConfigIssue,
  checkTrainConfig,
  EMBEDDINGS,
  NAMED_MODELS,
  publishedModelName,
  SETTING_ROWS,
  type SettingWarning,
  settingWarnings,
  type TrainConfig,
  type TrainConfigInput,
} from '../config';
import type { Patch } from './rows/key-row';
import type { TranslatedEntry } from './rows/meant';
import type { LineEffect, Place, Reading, ReadLine } from './rows/reading';
import { leftOutWarmup, onlyWarmup, type SettingSource, type Together, together, whereOf } from './together';

/** `shardlab run` starts at most this number of ranks, except with --ranks. */
export const MOST_RANKS_HERE = 8;

/**
 * Stands in for the model if no line names one. This model can be divided in any way, so that the check finds only faults of
 * lines.
 */
const ANY_MODEL = {
  kind: 'llama',
  layers: 1024,
  dim: 2 ** 16,
  heads: 1024,
  vocab: 2 ** 17,
  seq: 2 ** 20,
} as const;

/** Stands in for the model if no line names one and lines divide experts among ranks. */
const ANY_EXPERTS = { ...ANY_MODEL, kind: 'moe', experts: 1024, router: 'topk' } as const;

/**
 * Returns the reading of lines whose meanings are known; later lines replace the settings of earlier ones. `ranks` is the number of ranks if no
 * line gives this number.
 */
export function assemble(meant: readonly TranslatedEntry[], ranks?: number): Reading {
  const said = together(meant, ranks);
  const { findings, derived } = placeFindings(meant, said);
  const settings = new Map(said.settings);
  for (const one of derived) settings.set(one.path, one);
  sizeModel(meant, said, settings);
  const judge = (): Judged =>
    judged(
      [...settings].map(([path, { value }]) => [path, value] as const),
      said.place,
    );
  const early = judge().issues.some(({ path }) => path[0] === 'schedule')
    ? [...leftOutWarmup(meant, settings), ...onlyWarmup(meant, settings, said.place)]
    : [];
  const found = new Map([...findings, ...early, ...adaptedEmbeddings(settings)]);
  const checked = judge();
  const told = meant.map((one) => effectOf(one, found.get(one), { ...said, settings }, checked));
  const lines = meant.map(
    ({ entry }, index): ReadLine => ({ ...entry, effect: 'none', why: '', ...told[index] }),
  );
  const isDropped = (by: TranslatedEntry | null): boolean =>
    by !== null && told[meant.indexOf(by)]?.effect === 'none';
  const kept = [...settings].filter(([, { by }]) => !isDropped(by));
  const { world = null, machines = null } = said.place;
  return {
    world,
    machines,
    config: nested(kept.map(([path, { value }]) => [path, value])),
    lines: [...lines, ...unplaced(meant, checked)],
    place: said.place,
  };
}

/** Finds the line that gives adapters to embeddings, which a run refuses. */
function adaptedEmbeddings(
  settings: ReadonlyMap<string, SettingSource>,
): readonly (readonly [TranslatedEntry, LineEffect])[] {
  const { value, by = null } = settings.get('lora.targets') ?? {};
  const names = [value].flat().filter((name) => EMBEDDINGS.includes(String(name).split('.').at(-1) ?? ''));
  if (by === null || names.length === 0) return [];
  const why = `${names.join(', ')}: only linear layers get adapters here; leave embeddings out of lora.targets`;
  return [[by, { effect: 'refused', why }]];
}

/** Adds the length of sequences and the kind of attention to a model; removes the sizes of a model that no line names. */
function sizeModel(
  meant: readonly TranslatedEntry[],
  { place }: Together,
  settings: Map<string, SettingSource>,
): void {
  const model = settings.get('model')?.value;
  const published = publishedModelName(model);
  const isSized = model === undefined && settings.has('model.kind');
  const own: Readonly<Record<string, unknown>> = published === null ? {} : { ...NAMED_MODELS[published] };
  const take = (key: 'seq' | 'attention'): void => {
    const by = meant.findLast(({ meaning }) => meaning.place?.[key] !== undefined);
    if (by !== undefined && place[key] !== own[key]) settings.set(`model.${key}`, { value: place[key], by });
  };
  if (published !== null) take('seq');
  if (published !== null || isSized) take('attention');
  if (model === undefined && !isSized) {
    settings.delete('model.latent');
    settings.delete('model.attention');
  }
}

/** Makes an object of settings by path; settings within a model that is named are those of a model like it. */
export function nested(settings: readonly (readonly [string, unknown])[]): TrainConfigInput {
  const root: Record<string, unknown> = {};
  for (const [path, value] of settings) {
    const parts = path.split('.');
    let section = root;
    for (const part of parts.slice(0, -1)) {
      const inner = section[part];
      const next = typeof inner === 'object' && inner !== null ? { ...inner } : inLike(part, inner);
      section[part] = next;
      section = next as Record<string, unknown>; // `next` is a copy of an object
    }
    const key = parts.at(-1) ?? '';
    const before = section[key];
    const isLike = path === 'model' && typeof before === 'object' && typeof value === 'string';
    section[key] = isLike ? { like: value, ...before } : value;
  }
  return root as TrainConfigInput; // `judged` checks it
}

/** Returns the section that begins where a value without parts was: the model's name. */
function inLike(part: string, value: unknown): object {
  return part === 'model' && typeof value === 'string' ? { like: value } : {};
}

/** The errors of a config, and the settings that have no effect in it. */
interface Judged {
  readonly issues: readonly ConfigIssue[];
  readonly warnings: readonly SettingWarning[];
}

function judged(settings: readonly (readonly [string, unknown])[], place: Partial<Place>): Judged {
  const config = nested(settings);
  const checked = checkTrainConfig(withModel(config));
  if ('config' in checked) {
    const ranks = place.world ?? severalRanks(checked.config);
    return { issues: [], warnings: settingWarnings(config, checked.config, ranks) };
  }
  // If some settings are wrong, only the other settings are checked for warnings.
  const others = settings.filter(([path]) => !checked.issues.some((issue) => concerns(issue, [path])));
  const warnings = others.length < settings.length ? judged(others, place).warnings : [];
  return { issues: checked.issues, warnings };
}

/** Returns a config with a model, if it has none, that no other setting contradicts. */
export function withModel(config: TrainConfigInput): TrainConfigInput {
  if (config.model !== undefined) return config;
  return { ...config, model: (config.parallel?.ep ?? 1) > 1 ? ANY_EXPERTS : ANY_MODEL };
}

/** Returns the number of ranks that gives two data-parallel ranks, so that a strategy has ranks to shard over. */
function severalRanks({ parallel: { tp, pp } }: TrainConfig): number {
  return 2 * tp * pp;
}

/** Returns the effect of a line, from the settings that the line sets and from what was found by comparison with other lines. */
function effectOf(
  one: TranslatedEntry,
  finding: LineEffect | undefined,
  said: Together,
  judged: Judged,
): LineEffect {
  const { sets = {}, place, effect, why } = { ...one.meaning, ...finding };
  const told = why ?? one.row?.says ?? '';
  const paths = Object.keys(sets);
  const issue = judged.issues.find((each) => concerns(each, givenBy(one)));
  if (effect !== undefined && (effect !== 'used' || issue === undefined)) return { effect, why: told };
  if (issue !== undefined) return { effect: 'error', why: issue.message };
  const replaced = paths.map((path) => said.settings.get(path)?.by).find((by) => by != null && by !== one);
  if (
    replaced != null &&
    paths.every((path) => said.settings.get(path)?.by !== one) &&
    !sameValues(sets, said)
  )
    return { effect: 'none', why: `is replaced by ${replaced.entry.key} (${whereOf(replaced.entry)})` };
  if (paths.length === 0) return withoutSettings(one, told, said);
  const warning = judged.warnings.find(({ path }) => paths.includes(path));
  if (warning !== undefined)
    return { effect: warning.isIdle ? 'none' : 'warning', why: `${warning.path} ${warning.says}` };
  const planned = isPlannedModel(sets) || place !== undefined;
  return {
    effect: planned ? 'planned' : 'used',
    why: [setText(sets), why ?? '', ...planNotes(paths)].filter(Boolean).join('; '),
  };
}

function withoutSettings(
  { meaning: { place, usual, why } }: TranslatedEntry,
  told: string,
  said: Together,
): LineEffect {
  if (usual !== undefined)
    return { effect: 'used', why: [setText(usual), why ?? ''].filter(Boolean).join('; ') };
  if (place === undefined) return { effect: 'none', why: told };
  const { world, machines, ranksPerMachine } = place;
  const counts = [
    ...(world === undefined ? [] : [countText(world, 'rank')]),
    ...(machines === undefined ? [] : [countText(machines, 'machine')]),
    ...(ranksPerMachine === undefined ? [] : [`${countText(ranksPerMachine, 'rank')} per machine`]),
  ];
  const isHere = counts.length > 0 && (said.place.world ?? 0) <= MOST_RANKS_HERE;
  return { effect: isHere ? 'used' : 'planned', why: counts.length > 0 ? counts.join(', ') : told };
}

/** Returns a count with its noun: '1 rank', '2 ranks'. */
function countText(count: number, what: string): string {
  return `${count} ${count === 1 ? what : `${what}s`}`;
}

function sameValues(sets: Patch, { settings }: Together): boolean {
  return Object.entries(sets).every(
    ([path, value]) => JSON.stringify(settings.get(path)?.value) === JSON.stringify(value),
  );
}

function isPlannedModel({ model }: Patch): boolean {
  return publishedModelName(model) !== null;
}

function setText(sets: Patch): string {
  return Object.entries(sets)
    .map(([path, value]) => `${path}: ${JSON.stringify(value)}`)
    .join(', ');
}

/** Names the settings that a plan does not read, each with the reason. */
function planNotes(paths: readonly string[]): readonly string[] {
  return paths.flatMap((path) => {
    const planned = SETTING_ROWS.find((row) => row.path === path)?.planned ?? null;
    return planned !== null && 'refused' in planned ? [`in a plan, it ${planned.refused}`] : [];
  });
}

/** Returns the settings that a key gives, also those that other lines may replace; a program's defaults are given by no key. */
function givenBy({ row, meaning: { sets = {}, usual = {} } }: TranslatedEntry): readonly string[] {
  return Object.keys(row === null ? sets : { ...usual, ...sets });
}

function concerns({ path, message }: ConfigIssue, paths: readonly string[]): boolean {
  const at = path.join('.');
  return paths.some(
    (one) =>
      (at !== '' && (one === at || one.startsWith(`${at}.`) || at.startsWith(`${one}.`))) ||
      message.includes(one),
  );
}

/** Returns one new line for each issue that belongs to none of the given lines. */
function unplaced(meant: readonly TranslatedEntry[], { issues }: Judged): readonly ReadLine[] {
  const [first] = meant;
  if (first === undefined) return [];
  const { file, line } = first.entry;
  return issues
    .filter((issue) => !meant.some((one) => concerns(issue, givenBy(one))))
    .map(({ path, message }) => ({
      file,
      line,
      key: path.join('.'),
      value: null,
      effect: 'error',
      why: message,
    }));
}

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
function placeFindings(meant: readonly TranslatedEntry[], said: Together): PlaceFindings {
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
  // The table of settings refuses a degree below 1, and a line refuses a number of ranks that is not whole.
  if (!Number.isInteger(world) || world === undefined || !(divided >= 1)) return undefined;
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
