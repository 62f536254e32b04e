import { MODEL_PARTS, parseSettings, SETTING_ROWS, valueAt } from '../config';
import { GENERATIONS } from './generations';
import { meantBoard } from './hardware';
import type { Layout } from './layout';
import type { PlanSettings } from './layout-of-config';

/** A setting whose value a plan does not use, and the sentence that says what is planned instead. */
export interface Assumed {
  readonly setting: string;
  readonly says: string;
}

/** The settings of a config whose values a plan does not use. */
export interface ConfigReading {
  /** Settings that would affect a training on GPUs, but are planned with another value. */
  readonly assumed: readonly Assumed[];
  /** Settings that affect neither time nor memory of a step. */
  readonly withoutEffect: readonly string[];
}

const DEFAULTS = parseSettings({ mixedPrecision: {} });

/** The settings of which a plan says something, with their defaults as JSON. */
const ROWS = SETTING_ROWS.flatMap(({ path, planned, idle }) => {
  const keys = path.split('.');
  const usual = JSON.stringify(valueAt(DEFAULTS, keys));
  return planned === null ? [] : [{ path, keys, planned, idle, usual }];
});

/** Finds the settings that differ from their defaults and whose values the plan does not use. */
export function configReadingOf(settings: PlanSettings, model: unknown): ConfigReading {
  const assumed: Assumed[] = [];
  const withoutEffect = valuesOfModel(model);
  for (const { path, keys, planned, idle, usual } of ROWS) {
    const value = valueAt(settings, keys);
    if (value === undefined || JSON.stringify(value) === usual) continue;
    const says =
      'refused' in planned
        ? planned.refused
        : (planned.but?.(settings, settings) ?? idle?.(settings) ?? null);
    if (says !== null) assumed.push({ setting: path, says: `${path} ${shown(value)} ${says}` });
    else if ('ignored' in planned) withoutEffect.push(path);
  }
  return { assumed, withoutEffect };
}

function valuesOfModel(model: unknown): string[] {
  return Object.entries(MODEL_PARTS)
    .filter(([key, { planned }]) => Object.hasOwn(Object(model), key) && 'ignored' in planned)
    .map(([key]) => `model.${key}`);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

/** Finds settings of the place that the layout replaced, each with its new value. */
export function placeReadings(settings: PlanSettings, layout: Layout): readonly Assumed[] {
  const { asyncTensorParallel, fp8AllGather, cudaGraph } = layout;
  const hasExperts = layout.ep > 1;
  const planned = {
    asyncTensorParallel,
    fp8AllGather,
    dispatcher: hasExperts ? layout.dispatcher : 'without expert parallelism',
    overlapExperts: hasExperts && layout.overlapExperts,
    cudaGraph: cudaGraph === 'router' && layout.model.moe === null ? 'none' : cudaGraph,
  };
  const { hardware } = settings;
  const board = meantBoard((typeof hardware === 'object' ? hardware.like : hardware) ?? '');
  return [
    ...Object.entries(planned)
      .map(([setting, value]) => ({ setting, value, writtenValue: Reflect.get(settings, setting) }))
      .filter(({ value, writtenValue }) => writtenValue !== undefined && writtenValue !== value)
      .map(({ setting, value, writtenValue }) => ({
        setting,
        says: `${setting} ${writtenValue} has no effect here: planned as ${value}`,
      })),
    ...(board === undefined ? [] : [{ setting: 'on', says: `on: ${board}` }]),
    ...(layout.baseWeights === null ? [] : [DEQUANTIZED]),
    ...elsewhereOnly(layout),
  ];
}

/** Finds a kernel of attention that the GPU does not have. */
function elsewhereOnly({ attention, hardware }: Layout): readonly Assumed[] {
  const hasKernel = (facts: { readonly ownAttention: readonly string[] }): boolean =>
    facts.ownAttention.includes(attention);
  const known = Object.entries(GENERATIONS).flatMap(([name, facts]) => (hasKernel(facts) ? [name] : []));
  if (known.length === 0 || known.includes(hardware.generation)) return [];
  const says = `attention ${attention} does not run on ${hardware.name}, but on GPUs of ${known.join(', ')}; planned as if it did`;
  return [{ setting: 'attention', says }];
}

const DEQUANTIZED: Assumed = {
  setting: 'baseWeights',
  says: 'baseWeights nf4 is planned in memory only: the plan leaves out the time in which a step converts the 4-bit weights for each matmul',
};
