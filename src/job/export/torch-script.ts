import type { ParallelConfig } from '../../config/settings/parallel';
import { reduceDtypeOf } from '../../config/settings/precision';
import { STRATEGIES } from '../../config/strategies';
import type { ModelScript } from './model-parts';
import { modelScript } from './model-script';
import { indented, lines } from './python';
import {
  freezeLines,
  LOAD_WEIGHTS,
  microbatchIndex,
  openTokens,
  stepNumber,
  torchOptimizer,
  trainedParameters,
  WEIGHTS,
  wholeScript,
} from './script-parts';
import type { BundleFacts } from './target';

/** Returns train.py for torchrun: DDP, ZeroRedundancyOptimizer or fully_shard. */
export function torchScript(facts: BundleFacts): string {
  const { config, shape } = facts;
  const { strategy, tp } = config.parallel;
  const model = modelScript(facts);
  const isSharded = usesFullyShard(config.parallel);
  const way = isSharded
    ? `PyTorch's FSDP2 (${strategy}${tp > 1 ? `, tensor parallelism of ${tp}` : ''})`
    : `PyTorch's DDP${strategy === 'ZERO_1' ? ' and ZeroRedundancyOptimizer' : ''}`;
  return wholeScript(facts, model, {
    title: `Trains a ${shape.kind === 'gpt' ? 'GPT' : 'Llama'} under ${way}; see README.md.`,
    imports: importsOf(facts, isSharded),
    constants: tp > 1 ? [`TP = ${tp}`] : [],
    functions: [
      isSharded ? modelFunction(facts, model) : null,
      tp > 1 && config.clipNorm !== null ? CLIP_OVER_MESHES : null,
      mainFunction(facts, model, isSharded),
    ],
  });
}

/** Whether a strategy needs fully_shard: it shards gradients, or gradients and parameters. */
export function usesFullyShard({ strategy }: ParallelConfig): boolean {
  return STRATEGIES[strategy].shardedAtRest.includes('gradient');
}

function importsOf({ config }: BundleFacts, isSharded: boolean): string[] {
  const { strategy, tp } = config.parallel;
  const names = [
    ...(config.offload.parameters ? ['CPUOffloadPolicy'] : []),
    ...(config.mixedPrecision === null ? [] : ['MixedPrecisionPolicy']),
    'fully_shard',
  ];
  const state = 'torch.distributed.checkpoint.state_dict';
  return [
    'import torch.distributed as dist',
    'import torch.distributed.checkpoint as dcp',
    ...(isSharded
      ? [
          'from torch.distributed.device_mesh import init_device_mesh',
          `from torch.distributed.fsdp import ${names.join(', ')}`,
          `from ${state} import StateDictOptions, get_model_state_dict, set_model_state_dict`,
        ]
      : []),
    ...(strategy === 'ZERO_1' ? ['from torch.distributed.optim import ZeroRedundancyOptimizer'] : []),
    ...(tp > 1
      ? [
          'from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module',
          ...(config.clipNorm === null
            ? []
            : ['from torch.nn.utils import clip_grads_with_norm_, get_total_norm']),
        ]
      : []),
  ];
}

/** Writes the function that makes a model on the meta device, splits and shards it, and reads its weights. */
function modelFunction(facts: BundleFacts, model: ModelScript): string {
  const { config, shape } = facts;
  const { tp } = config.parallel;
  const isFused = tp > 1 && shape.kind === 'gpt';
  return lines(
    'def sharded_model(device):',
    '    with torch.device("meta"):',
    `        model = ${model.className}()`,
    freezeLines(config),
    tp > 1 && splitLines(facts, model),
    `    options = dict(${shardOptions(facts)})`,
    unitLines(facts, model),
    '    fully_shard(model, **options)',
    `    model.to_empty(device=${config.offload.parameters ? '"cpu"' : 'device'})`,
    isFused && [
      `    state = ${WEIGHTS}`,
      '    for name in [name for name in state if ".qkv." in name]:',
      '        # Each rank gets the rows of its own heads: of q, k and v.',
      '        rest = state[name].shape[1:]',
      '        state[name] = state[name].view(3, TP, DIM // TP, *rest).transpose(0, 1).reshape(3 * DIM, *rest)',
    ],
    `    set_model_state_dict(model, ${isFused ? 'state' : WEIGHTS}, options=StateDictOptions(full_state_dict=True))`,
    '    return model',
  );
}

/** Writes the lines that make the mesh and split the model for tensor parallelism. */
function splitLines(facts: BundleFacts, { split }: ModelScript): string {
  const named = (names: readonly string[]): string => `(${names.map((name) => `"${name}"`).join(', ')})`;
  return lines(
    `    mesh = ${meshText(facts)}`,
    `    plan = {name: ColwiseParallel() for name in ${named(split.columns)}}`,
    `    plan |= {name: RowwiseParallel() for name in ${named(split.rows)}}`,
    '    parallelize_module(model, mesh["tp"], plan)',
  );
}

function shardOptions(facts: BundleFacts): string {
  const { config } = facts;
  const { names } = meshOf(facts);
  const axes = names.length === 1 ? names[0] : names.join(', ');
  return [
    config.parallel.tp > 1 ? `mesh=mesh[${axes}]` : `mesh=${meshText(facts)}`,
    ...reshardOption(config.parallel),
    ...precisionOption(facts),
    ...(config.offload.parameters
      ? ['offload_policy=CPUOffloadPolicy(pin_memory=device.type == "cuda")']
      : []),
  ].join(', ');
}

/** Writes the call that makes the mesh of all ranks. */
function meshText(facts: BundleFacts): string {
  const { names, sizes } = meshOf(facts);
  const isSplit = facts.config.parallel.tp > 1;
  const tuple = (parts: readonly string[]): string =>
    parts.length === 1 ? `(${parts[0]},)` : `(${parts.join(', ')})`;
  const axes = tuple([...names, ...(isSplit ? ['"tp"'] : [])]);
  return `init_device_mesh(device.type, ${tuple([...sizes, ...(isSplit ? ['TP'] : [])])}, mesh_dim_names=${axes})`;
}

/** Returns the axes of data parallelism and the Python expressions of their sizes. */
function meshOf({ config, machines, gpusPerMachine }: BundleFacts): {
  readonly names: readonly string[];
  readonly sizes: readonly string[];
} {
  const { strategy, mesh, tp } = config.parallel;
  const world = tp > 1 ? 'dist.get_world_size() // TP' : 'dist.get_world_size()';
  if (!STRATEGIES[strategy].isHybrid) return { names: ['"dp"'], sizes: [world] };
  const replicas = mesh?.dpReplicate ?? machines;
  const shards = mesh?.dpShard ?? gpusPerMachine / tp;
  return { names: ['"dp_replicate"', '"dp_shard"'], sizes: [`${replicas}`, `${shards}`] };
}

function reshardOption({ strategy, reshardAfterForward }: ParallelConfig): string[] {
  const isKept = !STRATEGIES[strategy].reshardAfterForward;
  if (reshardAfterForward === null) return isKept ? ['reshard_after_forward=False'] : [];
  if (typeof reshardAfterForward === 'number') return [`reshard_after_forward=${reshardAfterForward}`];
  return [`reshard_after_forward=${reshardAfterForward ? 'True' : 'False'}`];
}

function precisionOption({ config }: BundleFacts): string[] {
  const { mixedPrecision } = config;
  if (mixedPrecision === null) return [];
  const { paramDtype, outputDtype, castForwardInputs } = mixedPrecision;
  const types = Object.entries({
    param_dtype: paramDtype,
    reduce_dtype: reduceDtypeOf(config),
    output_dtype: outputDtype,
  });
  const policy = [
    ...types.flatMap(([key, dtype]) => (dtype === null ? [] : [`${key}=torch.${dtype}`])),
    ...(castForwardInputs ? [] : ['cast_forward_inputs=False']),
  ];
  return [`mp_policy=MixedPrecisionPolicy(${policy.join(', ')})`];
}

/** Writes the loop that calls fully_shard for each unit except the root; null if the root is the only unit. */
function unitLines({ config }: BundleFacts, model: ModelScript): string | null {
  const { wrap } = config.parallel;
  if (wrap === 'root') return null;
  const units =
    wrap === 'linear'
      ? '[module for module in model.modules() if isinstance(module, nn.Linear)]'
      : model.blocks;
  return lines(`    for unit in ${units}:`, '        fully_shard(unit, **options)');
}

/** Split parameters are on another mesh than whole parameters, and torch's clip_grad_norm_ takes parameters of one mesh. */
const CLIP_OVER_MESHES = lines(
  'def clip(model):',
  '    """Scales gradients to a norm of at most CLIP_NORM; split and whole matrices are on different meshes."""',
  '    meshes = {}',
  '    for parameter in model.parameters():',
  '        if parameter.grad is not None:',
  '            meshes.setdefault(parameter.grad.device_mesh, []).append(parameter)',
  '    norms = [get_total_norm([p.grad for p in group]).full_tensor() for group in meshes.values()]',
  '    norm = torch.linalg.vector_norm(torch.stack(norms))',
  '    for group in meshes.values():',
  '        clip_grads_with_norm_(group, CLIP_NORM, norm)',
);

function mainFunction(facts: BundleFacts, model: ModelScript, isSharded: boolean): string {
  const { config } = facts;
  const { tp } = config.parallel;
  return lines(
    'def main():',
    '    cuda = torch.cuda.is_available()',
    '    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")',
    '    if cuda:',
    '        torch.cuda.set_device(device)',
    '    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")',
    '    rank, world = dist.get_rank(), dist.get_world_size()',
    openTokens(tp > 1 ? 'world // TP' : 'world'),
    isSharded ? '    model = sharded_model(device)' : replicatedModel(facts, model),
    optimizerLines(facts, isSharded),
    '    for step in range(STEPS):',
    '        total = torch.zeros((), device=device)',
    passLines(facts, isSharded),
    config.clipNorm !== null &&
      (tp > 1
        ? '        clip(model)'
        : '        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)'),
    '        optimizer.step()',
    config.schedule !== null && '        scheduler.step()',
    '        optimizer.zero_grad()',
    '        dist.all_reduce(total)',
    '        if rank == 0:',
    `            print(f"step {${stepNumber(facts)}} loss {total.item() / world:.6f}", flush=True)`,
    isSharded
      ? '    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=os.path.join(HERE, "checkpoint"))'
      : '    dcp.save({"model": model.module.state_dict()}, checkpoint_id=os.path.join(HERE, "checkpoint"))',
    '    dist.destroy_process_group()',
  );
}

function replicatedModel({ config }: BundleFacts, model: ModelScript): string {
  const { bucketBytes } = config.parallel;
  const options = [
    'device_ids=[device] if cuda else None',
    ...(bucketBytes === 25 * 2 ** 20 ? [] : [`bucket_cap_mb=${bucketBytes / 2 ** 20}`]),
  ].join(', ');
  return lines(
    `    model = ${model.className}()`,
    LOAD_WEIGHTS,
    freezeLines(config),
    `    model = nn.parallel.DistributedDataParallel(model.to(device), ${options})`,
  );
}

function optimizerLines({ config }: BundleFacts, isSharded: boolean): string {
  const { name, text } = torchOptimizer(config);
  const parameters = trainedParameters(config);
  const isZero = !isSharded && config.parallel.strategy === 'ZERO_1';
  return lines(
    isZero
      ? `    optimizer = ZeroRedundancyOptimizer(${parameters}, optimizer_class=torch.optim.${name}, ${text})`
      : `    optimizer = torch.optim.${name}(${parameters}, ${text})`,
    config.schedule !== null && '    scheduler = LambdaLR(optimizer, lr_factor)',
  );
}

/** Writes the passes of a step. */
function passLines(facts: BundleFacts, isSharded: boolean): string {
  const { config } = facts;
  const { accumulation, mixedPrecision, parallel } = config;
  const place = parallel.tp > 1 ? 'rank // TP' : 'rank';
  const low = mixedPrecision?.paramDtype ?? 'float32';
  const isCast = !isSharded && low !== 'float32';
  const loss = `loss = model(*read_batch(tokens, ${place}, ${microbatchIndex(facts)}, device))`;
  const forward = isCast ? lines(`with torch.autocast(device.type, torch.${low}):`, `    ${loss}`) : loss;
  if (accumulation === 1) return indented(lines(forward, 'loss.backward()', 'total += loss.detach()'), 2);
  const isLocal = parallel.noSync ?? STRATEGIES[parallel.strategy].accumulatesLocally;
  const work = lines(forward, '(loss / ACCUMULATION).backward()', 'total += loss.detach() / ACCUMULATION');
  const sync = isSharded
    ? lines('model.set_requires_gradient_sync(i == ACCUMULATION - 1)', work)
    : lines('model.require_backward_grad_sync = i == ACCUMULATION - 1', work);
  return indented(lines('for i in range(ACCUMULATION):', indented(isLocal ? sync : work)), 2);
}
