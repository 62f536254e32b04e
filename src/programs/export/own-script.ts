import { isSharded, STRATEGIES } from '../../config';
import { accelerateFiles } from './accelerate-files';
import { isPythonCode, type WrittenModel, writtenModel } from './own-model';
import type { BundleFacts, BundleFile, OwnBundleModel } from './target';
import { worldOf } from './target';
import {
  acceleratorOptions,
  bucketOptions,
  type Filling,
  isWordOf,
  lowOf,
  meshOf,
  passFlags,
  schedulerOf,
  scriptFrom,
  shardOptions,
  shardsOptimizer,
  torchScript,
  tuple,
  wayOfDDP,
  withTraining,
} from './train-script';

/** Returns train.py for torchrun, and the files of a user's own model. */
export function torchScripts(facts: BundleFacts): readonly BundleFile[] {
  const { config, shape } = facts;
  if (shape.kind !== 'own') return [torchScript(facts)];
  const { strategy } = config.parallel;
  const isByUnits = isSharded(strategy, 'gradient');
  const { axes, sizes } = meshOf(facts);
  return ownScripts(['decided', 'own_torchrun', 'torchrun'], facts, shape, ({ units, skipsParameters }) => ({
    way: `under ${isByUnits ? `PyTorch's FSDP2 (${strategy})` : wayOfDDP(config)}`,
    flags: {
      IS_SHARDED: isByUnits,
      IS_ON_HOST: config.offload.parameters,
      IS_ZERO_1: shardsOptimizer(config),
      ...passFlags(config),
    },
    constants: { UNITS: `[${units.map((name) => JSON.stringify(name)).join(', ')}]` },
    inlined: {
      SIZES: tuple(sizes),
      AXES: tuple(axes.map((axis) => `"${axis}"`)),
      LOW: lowOf(config),
      '**SHARDING': shardOptions(config),
      '**BUCKETS': [
        ...bucketOptions(config),
        ...(skipsParameters ? ['find_unused_parameters=True'] : []),
      ].join(', '),
    },
  }));
}

/** Returns train.py of a user's own model for Accelerate, the model's files, the YAML files and the launch scripts. */
export function ownAccelerateFiles(facts: BundleFacts, shape: OwnBundleModel): readonly BundleFile[] {
  const scripts = ownScripts(['accelerate'], facts, shape, ({ skipsParameters }) => ({
    way: 'by Accelerate',
    inlined: {
      '**ACCELERATOR': acceleratorOptions(
        facts,
        skipsParameters ? ['DistributedDataParallelKwargs(find_unused_parameters=True)'] : [],
      ),
    },
  }));
  const blockClass = writtenModel(shape).unitClasses.join(',') || undefined;
  return [...scripts, ...accelerateFiles(facts, { scripts: ['train.py'], blockClass })];
}

/** Returns train.py of a user's own model for DeepSpeed, and the model's files. */
export function ownDeepSpeedScripts(facts: BundleFacts, shape: OwnBundleModel): readonly BundleFile[] {
  return ownScripts(['deepspeed'], facts, shape, () => ({
    way: `by DeepSpeed (stage ${STRATEGIES[facts.config.parallel.strategy].zeroStage})`,
    inlined: { SCHEDULER: schedulerOf(facts.config) },
  }));
}

/** What a template has besides the parts of every own model; `way` ends the sentence of its title. */
type OwnFilling = { readonly way: string } & Partial<Pick<Filling, 'flags' | 'constants' | 'inlined'>>;

function ownScripts(
  files: readonly string[],
  facts: BundleFacts,
  shape: OwnBundleModel,
  more: (written: WrittenModel) => OwnFilling,
): readonly BundleFile[] {
  const { config } = facts;
  const isPython = isPythonCode(shape.code);
  const written = writtenModel(shape);
  const { className, ties, loss } = written;
  const { way, flags, constants, inlined } = more(written);
  const templates = ['common', ...(isPython && loss === null ? ['tokens'] : []), 'own', ...files];
  const isTaken = !isPython && isWordOf(templates, className);
  const filling = withTraining(facts, {
    title: `Trains ${className}${written.files[0] === undefined ? '' : ` of ${written.files[0].path}`} ${way}; see README.md.`,
    imports: [isTaken ? `from model import ${className} as Net, loss_of` : written.imports],
    ...(loss === null ? {} : { code: loss }),
    flags: { HAS_TIES: ties.length > 0, WIDENS: written.hasInt32, DRAWS: isPython, ...flags },
    constants: {
      SEED: config.seed,
      RANKS: worldOf(facts),
      BATCHES: shape.steps * config.accumulation,
      TIES: `{${ties.map(([second, first]) => `${JSON.stringify(second)}: ${JSON.stringify(first)}`).join(', ')}}`,
      ...constants,
    },
    inlined: {
      ...inlined,
      MODEL: isTaken ? 'Net' : written.model,
      // The last name, so that no other name takes the place of a word in the user's arguments.
      '**ARGUMENTS': written.arguments,
    },
  });
  return [{ path: 'train.py', text: scriptFrom(templates, filling) }, ...written.files];
}
