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
import { placeFindings } from './place-checks';
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
