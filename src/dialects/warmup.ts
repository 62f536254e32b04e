import type { Meant } from './meant';
import type { Told } from './reading';
import type { Said } from './together';

const PATH = 'schedule.warmupSteps';

/**
 * Takes a warm-up out of the settings if no line has the number of steps, which other programs get from their script. Returns the findings of
 * the lines that have it.
 */
export function leftOutWarmup(
  meant: readonly Meant[],
  settings: Map<string, Said>,
): readonly (readonly [Meant, Told])[] {
  const steps = settings.get(PATH)?.value;
  if (steps === undefined || settings.has('steps') || settings.has('schedule.maxSteps')) return [];
  settings.delete(PATH);
  const why = `a warm-up of ${String(steps)} steps is left out, because no line has the number of steps; write steps and schedule.warmupSteps: ${String(steps)}`;
  return meant
    .filter(({ meaning: { sets = {}, usual = {} } }) => Object.hasOwn({ ...sets, ...usual }, PATH))
    .map((one) => [one, { effect: 'warning', why }]);
}
