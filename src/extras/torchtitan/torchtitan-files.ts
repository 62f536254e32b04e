import { llamaFfn, weightsOf } from '../../config';
import {
  type BundleFacts,
  type BundleFile,
  builtInShape,
  exportedOf,
  lines,
  MODEL_FOLDER,
  mainLines,
  modelSource,
  numberText,
  pythonValue,
  shellFile,
  startComment,
  torchrunOptions,
  writtenKeys,
} from '../../programs/toolkit';
import { TORCHTITAN } from './torchtitan';

/** The last release that reads TOML. */
export const TORCHTITAN_PACKAGE = { name: 'torchtitan', version: '0.2.2' } as const;

type Scalar = string | number | boolean;
type Sections = Readonly<Record<string, Readonly<Record<string, Scalar>>>>;

/** TorchTitan's names of published models. */
const FLAVORS: Readonly<Record<string, string>> = {
  'llama3-8b': '8B',
  'llama3-70b': '70B',
  'llama3-405b': '405B',
};

/** The name of a model whose sizes TorchTitan does not have, and of the Python module that defines these sizes. */
const OWN_MODEL = 'exported_model';

/** Returns TorchTitan's name of a model's sizes; undefined if TorchTitan does not have these sizes. */
export function flavorOf({ config }: Pick<BundleFacts, 'config'>): string | undefined {
  const name = weightsOf(config.model);
  return name === null ? undefined : FLAVORS[name];
}

/** Returns train.toml, launch.sh, and the model's sizes if TorchTitan does not have them. */
export function torchTitanFiles(facts: BundleFacts): BundleFile[] {
  const own = flavorOf(facts) === undefined ? [{ path: `${OWN_MODEL}.py`, text: modelText(facts) }] : [];
  return [{ path: 'train.toml', text: tomlText(sectionsOf(facts)) }, launchFile(facts), ...own];
}

/** Returns the sections of train.toml: the keys of the settings, the model, the data, and the folders for output. */
function sectionsOf(facts: BundleFacts): Sections {
  const written = writtenKeys(TORCHTITAN.keys, exportedOf(facts)) as Sections; // the rows return scalars
  const flavor = flavorOf(facts);
  const isOwn = modelSource(facts) === MODEL_FOLDER;
  return {
    job: { dump_folder: 'outputs', description: 'exported by shardlab' },
    metrics: { log_freq: 1 },
    model: {
      name: flavor === undefined ? OWN_MODEL : 'llama3',
      flavor: flavor ?? OWN_MODEL,
      hf_assets_path: MODEL_FOLDER,
    },
    ...written,
    training: {
      ...written.training,
      seq_len: builtInShape(facts).seq,
      dataset: 'c4_test',
      dataset_path: 'data',
    },
    checkpoint: {
      enable: true,
      interval: Math.max(1, facts.config.steps),
      ...(isOwn && { initial_load_path: MODEL_FOLDER, initial_load_in_hf: true }),
    },
    ...(flavor === undefined && { experimental: { custom_import: OWN_MODEL } }),
  };
}

/** Returns sentences about other differences from a run here. */
export function torchTitanNotes(facts: BundleFacts): readonly string[] {
  return [
    ...(modelSource(facts) === MODEL_FOLDER
      ? []
      : [
          'TorchTitan begins with its own initial values, so losses differ from those of a run here; --init FILE writes values that TorchTitan loads.',
        ]),
    `The folder model/ needs a tokenizer.json and its tokenizer_config.json${builtInShape(facts).from === undefined ? '' : ', if they are not there'}.`,
    `TorchTitan ${TORCHTITAN_PACKAGE.version} reads the settings; later releases have settings in modules of Python. This release's parser can read such files; no training was run, because that needs GPUs.`,
    ...(typeof facts.config.activationCheckpointing === 'object' &&
    facts.config.activationCheckpointing !== null &&
    'everyNth' in facts.config.activationCheckpointing
      ? [
          'Of each n layers, TorchTitan runs the last one again in backward; a run here runs the first one again.',
        ]
      : []),
  ];
}

function tomlText(sections: Sections): string {
  const parts = Object.entries(sections).map(([name, keys]) =>
    lines(`[${name}]`, ...Object.entries(keys).map(([key, value]) => `${key} = ${tomlValue(key, value)}`)),
  );
  return `${[`# Settings of TorchTitan ${TORCHTITAN_PACKAGE.version}, the last release that reads TOML.`, ...parts].join('\n\n')}\n`;
}

function tomlValue(key: string, value: Scalar): string {
  if (value === Number.POSITIVE_INFINITY) return 'inf';
  return typeof value === 'number' ? numberText(key, value) : JSON.stringify(value);
}

function launchFile(facts: BundleFacts): BundleFile {
  return shellFile('launch.sh', facts, startComment(facts), {
    commands: [
      mainLines(facts),
      `export PYTHONPATH="$PWD:\${PYTHONPATH:-}"`,
      `exec torchrun ${torchrunOptions(facts)} -m torchtitan.train --job.config_file train.toml`,
    ],
  });
}

/**
 * Returns the module that registers the model's sizes. TorchTitan rounds ffn_dim_multiplier · 8/3 · dim up to a multiple of
 * `multiple_of`, and uses the result as the width of a feed-forward layer. Here `multiple_of` is the wanted width and
 * ffn_dim_multiplier · 8/3 · dim is half of this width, so the result is the wanted width.
 */
function modelText({ shape }: BundleFacts): string {
  if (shape.kind !== 'llama') return ''; // the rules refuse other models
  const { dim, layers, heads, kvHeads = heads, ffn = llamaFfn(dim), vocab, seq, normEps, ropeTheta } = shape;
  const sizes = {
    dim,
    n_layers: layers,
    n_heads: heads,
    n_kv_heads: kvHeads,
    vocab_size: vocab,
    multiple_of: ffn,
    ffn_dim_multiplier: ffn / 2 / ((8 * dim) / 3),
    norm_eps: normEps,
    rope_theta: ropeTheta,
    max_seq_len: seq,
  };
  return `${lines(
    `"""The sizes of train.toml's model, for TorchTitan ${TORCHTITAN_PACKAGE.version}."""`,
    '',
    'from dataclasses import replace',
    '',
    'from torchtitan.models.llama3 import TransformerModelArgs, get_train_spec',
    'from torchtitan.models.llama3.model.args import RoPEScalingArgs',
    'from torchtitan.protocols.train_spec import register_train_spec',
    '',
    'SIZES = TransformerModelArgs(',
    ...Object.entries(sizes).map(([name, value]) => `    ${name}=${pythonValue(value)},`),
    '    rope_scaling_args=RoPEScalingArgs(scaling_factor=1.0),  # positions are not scaled',
    ')',
    `register_train_spec("${OWN_MODEL}", replace(get_train_spec(), model_args={"${OWN_MODEL}": SIZES}))`,
  )}\n`;
}
