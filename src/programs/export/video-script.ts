import { encoderShape, isSharded, type TrainConfig } from '../../config';
import { modelCode } from './model-code';
import { leftOut, onlyRecompute, similar } from './rules';
import { TORCH_EXCEPTIONS } from './script-exceptions';
import {
  type BundleFacts,
  type BundleFile,
  type Exceptions,
  type Treatment,
  type VideoBundleModel,
  videoShape,
  worldOf,
} from './target';
import {
  bucketOptions,
  lowOf,
  meshOf,
  nthOf,
  passFlags,
  scriptFrom,
  shardOptions,
  shardsOptimizer,
  tuple,
  wayOfDDP,
  withTraining,
} from './train-script';

/** The arrays of a batch, which are files in data/: the velocity, then the model's inputs. */
export function videoParts({ audioLayers }: VideoBundleModel): readonly string[] {
  return ['velocity', 'latents', 'timesteps', 'text', ...(audioLayers.length > 0 ? ['audio'] : [])];
}

/** Returns train.py and model.py of a video model: DDP, ZeroRedundancyOptimizer or fully_shard. */
export function videoScripts(facts: BundleFacts): BundleFile[] {
  const { config } = facts;
  const shape = videoShape(facts);
  const isByUnits = isSharded(config.parallel.strategy, 'gradient');
  const encodes = config.textEncoder !== null;
  const names = ['new_dit', ...(encodes ? ['T5Encoder'] : [])];
  const way = isByUnits ? `PyTorch's FSDP2 (${config.parallel.strategy})` : wayOfDDP(config);
  const filling = withTraining(facts, {
    title: `Trains the video model of model.py under ${way}; see README.md.`,
    imports: [`from model import ${names.toSorted().join(', ')}`],
    flags: flagsOf(config, shape),
    constants: {
      RANKS: worldOf(facts),
      SHAPE: sizesText(shape),
      ...(config.textEncoder !== null && { ENCODER: sizesText(encoderShape(config.textEncoder)) }),
      PARTS: tuple(videoParts(shape).map((name) => JSON.stringify(name))),
    },
    inlined: inlinedOf(facts),
  });
  return [
    { path: 'train.py', text: scriptFrom(['common', 'decided', 'video', 'torchrun'], filling) },
    { path: 'model.py', text: modelText(names) },
  ];
}

function modelText(names: readonly string[]): string {
  const hasEncoder = names.includes('T5Encoder');
  const title = hasEncoder
    ? "Wan2.2's video transformer and its text encoder (UMT5's), with their parameter names."
    : "Wan2.2's video transformer, with its parameter names.";
  const files = ['attention', 'llama', 'dit', ...(hasEncoder ? ['t5'] : [])];
  return modelCode(title, files, names);
}

function flagsOf(config: TrainConfig, shape: VideoBundleModel) {
  const { parallel, textEncoder, activationCheckpointing } = config;
  return {
    IS_SHARDED: isSharded(parallel.strategy, 'gradient'),
    IS_ON_HOST: config.offload.parameters,
    IS_ZERO_1: shardsOptimizer(config),
    HAS_EXPERTS: shape.experts === 2,
    ACCUMULATES: true, // a loop also over one microbatch
    ENCODES: textEncoder !== null,
    SHARDS_ENCODER: textEncoder?.fsdp === true,
    RECOMPUTES: activationCheckpointing !== null,
    WRAPS_BLOCKS: parallel.wrap !== 'root' && parallel.wrap !== 'linear',
    WRAPS_LINEARS: parallel.wrap === 'linear',
    ...passFlags(config),
  };
}

function inlinedOf(facts: BundleFacts): Readonly<Record<string, string>> {
  const { config } = facts;
  const { axes, sizes } = meshOf(facts);
  const { paramDtype = null, castForwardInputs = true } = config.mixedPrecision ?? {};
  const cast = castForwardInputs ? '' : ', cast_forward_inputs=False';
  const hasExperts = videoShape(facts).experts === 2;
  return {
    SIZES: tuple(sizes),
    AXES: tuple(axes.map((axis) => JSON.stringify(axis))),
    LOW: lowOf(config),
    NTH: `${nthOf(config) ?? 1}`,
    '**SHARDING': shardOptions(config),
    '**GATHERING': paramDtype === null ? '' : `mp_policy=MixedPrecisionPolicy(torch.${paramDtype}${cast})`,
    '**BUCKETS': [...bucketOptions(config), ...(hasExperts ? ['find_unused_parameters=True'] : [])].join(
      ', ',
    ),
  };
}

/** Writes the sizes of a model as Python does; sizes are numbers, texts and lists. */
function sizesText(shape: object): string {
  const sizes = Object.entries(shape).filter(([key]) => !['kind', 'like', 'from', 'className'].includes(key));
  return `{${sizes.map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(', ')}}`;
}

/** The exception of a text encoder: each rank of a bundle encodes its own captions, as here. */
function besideModel({ config: { textEncoder } }: BundleFacts): Treatment | null {
  return textEncoder === null ? null : 'said';
}

/** Exceptions of train.py of a video model. */
export const VIDEO_EXCEPTIONS: Exceptions = {
  ...TORCH_EXCEPTIONS,
  movingShapes: 'said',
  textEncoder: besideModel,
  activationCheckpointing: onlyRecompute('full', 'everyNth'),
  'parallel.wrap': ({ config: { parallel } }) =>
    parallel.wrap === 'blocks' || parallel.wrap === 'linear' || parallel.wrap === 'root'
      ? null
      : similar('every block is a unit: the same values, with other memory and messages'),
  'parallel.unitStrategies': leftOut(
    'every unit has parallel.strategy: the same values, with other memory and messages',
  ),
};
