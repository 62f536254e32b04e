import { PUBLISHED_TRAINING, STACKS, STRATEGY_NAMES } from '../../src/config';
import type { Layout } from '../../src/planner';
import { isSection, type Settings, settingAt, withSetting } from './settings';

/** A choice of a field: the value that the page writes, and its text. */
export interface Choice {
  readonly value: string;
  readonly text: string;
}

/** A field of the form, which reads and writes settings. */
export interface Field {
  /** The path of the setting, also the key of the field. */
  readonly path: string;
  readonly label: string;
  readonly kind: 'text' | 'number' | 'choice';
  readonly choices?: readonly Choice[];
  /** The list of suggestions of a text. */
  readonly list?: 'models' | 'gpus';
  /** Paths of settings whose faults are shown at this field. */
  readonly also?: readonly string[];
  /** A sentence that says what the setting means, shown below the field. */
  readonly says?: string;
  /** The value that applies if the field is empty. */
  usual?(layout: Layout): string;
  read(settings: Settings): string;
  write(settings: Settings, text: string): Settings;
}

/** A group of fields; groups that are not open begin folded. */
export interface FieldGroup {
  readonly title: string;
  readonly isOpen: boolean;
  readonly fields: readonly Field[];
}

/** A setting whose values are whole numbers or other numbers; an empty field removes the setting. */
function number(path: string, label: string, usual: (layout: Layout) => number, says?: string): Field {
  return {
    path,
    label,
    kind: 'number',
    ...(says === undefined ? {} : { says }),
    usual: (layout) => String(usual(layout)),
    read: (settings) => textOf(settingAt(settings, path)),
    write: (settings, text) => withSetting(settings, path, text === '' ? undefined : Number(text)),
  };
}

/** A setting with a few values; the first choice has an empty value, and removes the setting. */
function choice(path: string, label: string, choices: readonly Choice[], says?: string): Field {
  return {
    path,
    label,
    kind: 'choice',
    choices,
    ...(says === undefined ? {} : { says }),
    read: (settings) => textOf(settingAt(settings, path)),
    write: (settings, text) => withSetting(settings, path, text === '' ? undefined : text),
  };
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const same = (value: string): Choice => ({ value, text: value });

/** Notes of fields; the page adds the source of the figures. */
export const MODEL_SAYS = 'A name, or a number of parameters such as 7.5e9.';
export const GPU_SAYS = 'A name, such as H100-80G.';

/** The settings with which models train whose names bring no settings: those of published trainings. */
export const OF_PUBLISHED: Settings = { ...PUBLISHED_TRAINING, attention: 'flash' };

/** The model's field. */
const MODEL: Field = {
  path: 'model',
  label: 'Model',
  kind: 'text',
  list: 'models',
  says: MODEL_SAYS,
  read: ({ model }) => {
    if (!isSection(model)) return textOf(model);
    const { like, name, params, layers } = model;
    return textOf(like ?? name ?? (layers === undefined ? params : JSON.stringify(model)));
  },
  write(settings, text) {
    const written = text.trim();
    const params = Number(written);
    if (written === '') return withSetting(settings, 'model', undefined);
    if (written.startsWith('{')) return { ...settings, model: objectOf(written) };
    if (params > 0) return { ...OF_PUBLISHED, ...settings, model: { params } };
    return { ...settings, model: written };
  },
};

function objectOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const SEQUENCE: Field = {
  path: 'model.seq',
  label: 'Tokens per sequence',
  kind: 'number',
  usual: ({ model }) => String(model.seq),
  read: (settings) => textOf(settingAt(settings, 'model.seq')),
  write(settings, text) {
    const { model } = settings;
    if (text !== '') return { ...settings, model: { ...sizesOf(model), seq: Number(text) } };
    if (!isSection(model)) return settings;
    const { seq: _seq, ...sizes } = model;
    const { like, ...more } = sizes;
    return { ...settings, model: Object.keys(more).length === 0 && like !== undefined ? like : sizes };
  },
};

function sizesOf(model: unknown): Settings {
  return isSection(model) ? model : { like: model };
}

const TYPES: Readonly<Record<string, Settings>> = {
  fp8: { fp8: true },
  bf16: { mixedPrecision: { paramDtype: 'bfloat16', reduceDtype: 'float32' } },
  fp16: { mixedPrecision: { paramDtype: 'float16', reduceDtype: 'float16' } },
  fp32: { mixedPrecision: null },
};

const PRECISION: Field = {
  path: 'mixedPrecision',
  label: 'Precision',
  kind: 'choice',
  also: ['fp8'],
  choices: [
    { value: '', text: 'default: bf16 for published models' },
    { value: 'bf16', text: 'bf16, gradients reduced in float32' },
    { value: 'fp16', text: 'fp16' },
    { value: 'fp8', text: 'fp8 matmuls' },
    { value: 'fp32', text: 'float32' },
  ],
  usual: ({ precision }) => precision,
  read(settings) {
    const written = JSON.stringify(typesOf(settings));
    return Object.entries(TYPES).find(([, types]) => JSON.stringify(types) === written)?.[0] ?? '';
  },
  write(settings, text) {
    const { mixedPrecision: _types, fp8: _fp8, ...others } = settings;
    return { ...others, ...TYPES[text] };
  },
};

function typesOf({ mixedPrecision, fp8 }: Settings): Settings {
  return fp8 === true ? { fp8 } : mixedPrecision === undefined ? {} : { mixedPrecision };
}

const OFFLOAD: Field = {
  path: 'offload',
  label: 'Offload to the host',
  kind: 'choice',
  choices: [
    { value: '', text: 'nothing' },
    { value: 'optimizer', text: 'optimizer states' },
    { value: 'parameters', text: 'parameters and optimizer states' },
  ],
  read({ offload }) {
    const { optimizer, parameters } = isSection(offload) ? offload : {};
    return parameters === true ? 'parameters' : optimizer === true ? 'optimizer' : '';
  },
  write: (settings, text) => withSetting(settings, 'offload', text === '' ? undefined : { [text]: true }),
};

const RECOMPUTE = choice('activationCheckpointing', 'Recompute in backward', [
  { value: '', text: 'nothing' },
  { value: 'selective', text: 'selective' },
  { value: 'full', text: 'full: every layer' },
]);

/** The groups of fields, in the order of the form. */
export const FIELD_GROUPS: readonly FieldGroup[] = [
  {
    title: 'Model and GPUs',
    isOpen: true,
    fields: [
      MODEL,
      SEQUENCE,
      {
        ...choice('on', 'Kind of GPU', []),
        kind: 'text',
        list: 'gpus',
        says: GPU_SAYS,
        also: ['hardware'],
        usual: ({ hardware }) => hardware.name,
      },
      number('gpus', 'Number of GPUs', ({ gpus }) => gpus),
    ],
  },
  {
    title: 'Layout',
    isOpen: true,
    fields: [
      choice('parallel.strategy', 'Sharding', [
        { value: '', text: 'FULL_SHARD (ZeRO-3, the default)' },
        ...STRATEGY_NAMES.filter((name) => name !== 'FULL_SHARD').map(same),
      ]),
      number('parallel.tp', 'Tensor parallel (tp)', ({ tp }) => tp),
      number('parallel.pp', 'Pipeline stages (pp)', ({ pp }) => pp),
      number('parallel.cp', 'Context parallel (cp)', ({ cp }) => cp),
      number('parallel.ep', 'Expert parallel (ep)', ({ ep }) => ep),
      RECOMPUTE,
      PRECISION,
    ],
  },
  {
    title: 'Batch',
    isOpen: true,
    fields: [
      number('batch', 'Sequences per rank and pass', ({ pp, microBatch, numMicroBatches }) =>
        pp === 1 ? microBatch : microBatch * numMicroBatches,
      ),
      number('accumulation', 'Passes per step', ({ pp, numMicroBatches }) =>
        pp === 1 ? numMicroBatches : 1,
      ),
      number('parallel.microbatches', 'Microbatches of a pipeline', ({ numMicroBatches }) => numMicroBatches),
    ],
  },
  {
    title: 'Program and machine',
    isOpen: false,
    fields: [
      choice('stack', 'Program', [{ value: '', text: 'by the strategy' }, ...STACKS.map(same)]),
      OFFLOAD,
      choice('optimizer.kind', 'Optimizer', [
        { value: '', text: 'AdamW' },
        ...['adam', 'adamW8bit', 'sgd', 'lion'].map(same),
      ]),
      number('gpusPerNode', 'GPUs per node', ({ hardware }) => hardware.gpusPerNode),
      number('nicGbit', 'Network, Gbit/s per GPU', ({ hardware }) => hardware.nicGbit),
    ],
  },
];

export const FIELDS: readonly Field[] = FIELD_GROUPS.flatMap(({ fields }) => fields);

/** Returns the field at which a fault is shown; undefined: none is about this setting. */
export function fieldOf(path: string): Field | undefined {
  return (
    FIELDS.find((field) => field.path === path) ??
    FIELDS.find(({ path: own, also = [] }) =>
      [own, ...also].some((each) => path === each || path.startsWith(`${each}.`)),
    )
  );
}
