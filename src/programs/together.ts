import type { TranslatedEntry } from './rows/meant';
import type { Entry, LineEffect, Place } from './rows/reading';

/** A setting's value, and the line that has it; the line is null if the value is a program's default. */
export interface SettingSource {
  readonly value: unknown;
  readonly by: TranslatedEntry | null;
}

/** The settings of all lines together. */
export interface Together {
  /** Settings by path, each with the line that set it last, or with null for a program's default. */
  readonly settings: ReadonlyMap<string, SettingSource>;
  readonly place: Partial<Place>;
}

/** Merges the settings of lines; defaults of programs come first. */
export function together(meant: readonly TranslatedEntry[], ranks: number | undefined): Together {
  const settings = new Map<string, SettingSource>();
  let place: Partial<Place> = {};
  // A line's `usual` settings replace a program's defaults.
  const usual = [...meant].sort((a, b) => Number(a.row !== null) - Number(b.row !== null));
  for (const { meaning } of usual) {
    for (const [path, value] of Object.entries(meaning.usual ?? {})) settings.set(path, { value, by: null });
  }
  for (const one of meant) {
    for (const [path, value] of Object.entries(one.meaning.sets ?? {}))
      settings.set(path, { value, by: one });
    place = { ...place, ...(one.stack && { stack: one.stack }), ...one.meaning.place };
    // The last line that names a model decides, also if only plans know this model.
    if (one.meaning.place?.model !== undefined) settings.delete('model');
    if (one.meaning.sets?.model !== undefined) {
      const { model: _, ...others } = place;
      place = others;
    }
  }
  const { world, machines, ranksPerMachine } = place;
  if (world === undefined && ranksPerMachine !== undefined)
    place = { ...place, machines: machines ?? 1, world: (machines ?? 1) * ranksPerMachine };
  if (place.world === undefined && ranks !== undefined) place = { ...place, world: ranks };
  if (place.world !== undefined && place.machines === undefined) place = { ...place, machines: 1 };
  return { settings, place };
}

const WARMUP = 'schedule.warmupSteps';

/**
 * Removes a warm-up from the settings if no line has the number of steps; other programs get this number from their script. Returns the
 * findings of the lines that have the warm-up.
 */
export function leftOutWarmup(
  meant: readonly TranslatedEntry[],
  settings: Map<string, SettingSource>,
): readonly (readonly [TranslatedEntry, LineEffect])[] {
  const steps = settings.get(WARMUP)?.value;
  if (steps === undefined || settings.has('steps') || settings.has('schedule.maxSteps')) return [];
  settings.delete(WARMUP);
  const why = `a warm-up of ${String(steps)} steps is left out, because no line has the number of steps; write steps and schedule.warmupSteps: ${String(steps)}`;
  return warmupLines(meant, why);
}

/**
 * Replaces a schedule that ends within its warm-up by a schedule that only warms up. Other programs train such a schedule, but our falling
 * schedules refuse it. Returns the findings of the lines that have the warm-up.
 */
export function onlyWarmup(
  meant: readonly TranslatedEntry[],
  settings: Map<string, SettingSource>,
  { isWarmupCut = false }: Partial<Place>,
): readonly (readonly [TranslatedEntry, LineEffect])[] {
  const warmup = settings.get(WARMUP);
  const end = settings.get('schedule.maxSteps')?.value ?? settings.get('steps')?.value;
  if (typeof warmup?.value !== 'number' || typeof end !== 'number' || warmup.value < end) return [];
  const { value, by } = warmup;
  settings.set('schedule.kind', { value: 'constant', by });
  if (isWarmupCut) settings.set(WARMUP, { value: end, by });
  const why = isWarmupCut
    ? `a warm-up of ${value} steps is cut to the ${end} steps of the training, in which the rate only rises`
    : `the training ends after ${end} steps, within the warm-up of ${value}, so the rate only rises`;
  return warmupLines(
    meant,
    `${why}: schedule.kind: constant, schedule.warmupSteps: ${isWarmupCut ? end : value}`,
  );
}

/** Returns a warning for each line that has the warm-up. */
function warmupLines(
  meant: readonly TranslatedEntry[],
  why: string,
): readonly (readonly [TranslatedEntry, LineEffect])[] {
  return meant
    .filter(({ meaning: { sets = {}, usual = {} } }) => Object.hasOwn({ ...sets, ...usual }, WARMUP))
    .map((one) => [one, { effect: 'warning', why }]);
}

/** Returns 'file:line'. */
export function whereOf({ file, line }: Entry): string {
  return `${file}:${line}`;
}
