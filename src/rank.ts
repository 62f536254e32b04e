/**
 * The names in the scope of a rank's code. A `%%ranks` cell uses them without an import; a function given to
 * `job.on().run` gets them as its first argument. An import outside of a rank throws CONFIG.
 */
import { currentRankScope } from './launch';

/** TensorFlow.js: tensors, operations, gradients and layers. */
export * as tf from './core/tf';
export type { Engine } from './engine';
export type { RankFsdpWrapper, RankScope } from './launch';
export { StateDictType } from './launch';
/** Modules, parameters, layers and models, by PyTorch's names. */
export * as nn from './nn/names/nn-names';
export type {
  AdamW,
  AdamWOptions,
  ContextParallel,
  ContextParallelOptions,
  DdpOptions,
  Fsdp,
  FsdpOptions,
  FullyShardArguments,
  Optimizer,
  ParallelPlan,
  ParallelStyle,
  PipelineSchedule,
  PipelineStagesOptions,
  Placement,
  ScheduleOptions,
  StepOptions,
  WrapPolicy,
} from './sharding';
export * from './sharding/names/context-names';
export * from './sharding/names/fsdp-names';
export * from './sharding/names/tensor-names';
export type {
  CollectiveOptions,
  DeviceMesh,
  Dist,
  ModelParallel,
  ModelParallelSizes,
  ProcessGroup,
  ReduceOp,
  Work,
} from './wire';

const scope = currentRankScope();

/** This process's index among all ranks, from 0. */
export const rank = scope.rank;
/** The number of ranks of the job. */
export const worldSize = scope.worldSize;
/** The group of all ranks. */
export const group = scope.group;
/** All ranks as a mesh of one axis, 'dp'. */
export const mesh = scope.mesh;
/** Collectives and groups, by the names of torch.distributed. */
export const dist = scope.dist;
/** Arranges all ranks in axes: `initDeviceMesh([2, 2], ['replicate', 'shard'])`. Throws: MESH. */
export const initDeviceMesh = scope.initDeviceMesh;
/**
 * Divides all ranks into the groups of model parallelism, in Megatron's order. The product of the sizes and the number of
 * data-parallel ranks is the number of all ranks. Throws: CONFIG, MESH. Source:
 * megatron.core.parallel_state.initialize_model_parallel.
 * @example
 * const parallel = initializeModelParallel({ tensorModelParallelSize: 2 });
 * parallel.tp.ranks
 */
export const initializeModelParallel = scope.initializeModelParallel;
/**
 * Makes named modules tensor-parallel, in place, and returns the outer module; `mesh` has one axis. Each rank then holds its
 * parts of the named modules' matrices, with unchanged values. A style instead of a plan applies to the outer module itself.
 * Every rank must call it, before fullyShard and DDP. Throws: CONFIG. Source:
 * torch.distributed.tensor.parallel.parallelize_module.
 * @example
 * const parallel = initializeModelParallel({ tensorModelParallelSize: 2 });
 * const net = new nn.Sequential(new nn.Linear(8, 32), new nn.ReLU(), new nn.Linear(32, 8));
 * parallelizeModule(net, parallel.mesh.slice('tp'), { '0': ColwiseParallel(), '2': RowwiseParallel() });
 */
export const parallelizeModule = scope.parallelizeModule;
/**
 * Makes an `nn.gpt` or `nn.llama` tensor-parallel, in place, and returns the model; `mesh` has one axis. With
 * `sequenceParallel`, each rank runs norms and residuals on a part of the sequence. Throws: CONFIG, also if the ranks do not
 * divide the heads.
 * @example
 * const parallel = initializeModelParallel({ tensorModelParallelSize: 2 });
 * const gpt = nn.gpt({ layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 });
 * parallelizeTensors(gpt, parallel.mesh.slice('tp'), { sequenceParallel: true });
 */
export const parallelizeTensors = scope.parallelizeTensors;
/**
 * A Linear whose outputs are divided over ranks. Its forward communicates nothing; backward all-reduces the gradient of
 * the input. Throws: CONFIG. Source: megatron.core.tensor_parallel.ColumnParallelLinear.
 */
export const ColumnParallelLinear = scope.ColumnParallelLinear;
/**
 * A Linear whose inputs are divided over ranks. Its forward all-reduces the output, then adds the bias. Throws: CONFIG.
 * Source: megatron.core.tensor_parallel.RowParallelLinear.
 */
export const RowParallelLinear = scope.RowParallelLinear;
/**
 * An Embedding whose rows are divided over ranks. Throws: CONFIG. Source: megatron.core.tensor_parallel.VocabParallelEmbedding.
 */
export const VocabParallelEmbedding = scope.VocabParallelEmbedding;
/**
 * Divides a model into the stages of a pipeline and returns this rank's stages: one, or several with `virtualStages`. Takes
 * `nn.gpt`, `nn.llama`, an `nn.Sequential`, and models whose forward applies their modules one after another; for other models,
 * an error gives the reason. `split` is 'layers' (default), 'parameters' or 'time' (which needs one microbatch as `example: { x,
 * target }`), or a list: the number of layers per stage, or the names of the modules with which stages begin. Every rank must
 * call this function with the same model, which must not be used afterwards. Throws: CONFIG. Source:
 * torch.distributed.pipelining.pipeline.
 * @example
 * const parallel = initializeModelParallel({ pipelineModelParallelSize: 2 });
 * const stages = pipelineStages(nn.gpt({ layers: 4, dim: 64, heads: 4, vocab: 256, seq: 32 }), { group: parallel.pp });
 * const schedule = Schedule1F1B(stages, { numMicrobatches: 4 });
 * schedule.actions.length
 */
export const pipelineStages = scope.pipelineStages;
/**
 * A stage that you cut yourself: `new PipelineStage(module, parallel.pp.rank, parallel.pp.size, { group: parallel.pp })`.
 * Throws: CONFIG. Source: torch.distributed.pipelining.PipelineStage.
 */
export const PipelineStage = scope.PipelineStage;
/**
 * `schedule.step(x, { target })` runs all forwards of a step, then all backwards. Every rank of the pipeline must call it.
 * Throws: CONFIG, SHAPE, COLLECTIVE_MISMATCH, COLLECTIVE_MISSING. Source:
 * torch.distributed.pipelining.ScheduleGPipe; Huang et al. 2019.
 */
export const ScheduleGPipe = scope.ScheduleGPipe;
/**
 * Runs one forward and one backward in turn, so that stage p of P stores activations of at most P - p microbatches. Throws the
 * errors of `ScheduleGPipe`. Source: torch.distributed.pipelining.Schedule1F1B; Narayanan et al. 2019.
 */
export const Schedule1F1B = scope.Schedule1F1B;
/**
 * 1F1B with several stages per rank (`virtualStages`), in Megatron-LM's order: a smaller bubble and more transfers. Throws the
 * errors of `ScheduleGPipe`. Source: torch.distributed.pipelining.ScheduleInterleaved1F1B; Narayanan et al. 2021.
 */
export const ScheduleInterleaved1F1B = scope.ScheduleInterleaved1F1B;
/**
 * Runs 1F1B, but computes gradients of parameters later, when the rank would otherwise wait. Throws the errors of
 * `ScheduleGPipe`. Source: ZB-H1 of Qi et al. 2023; torch's ScheduleInterleavedZeroBubble with one stage per rank.
 */
export const ScheduleZBH1 = scope.ScheduleZBH1;
/** Optimizers and functions that clip gradients, by the names of torch.optim and torch.nn.utils. */
export const optim = scope.optim;
/** This rank's engine. It reports the rank's memory and the library that computes its matmuls. */
export const engine = scope.engine;
/**
 * Runs a model up to its loss and records it; `.backward()` then writes the gradients into the parameters or their shards,
 * where `optim` finds them. Throws: SHAPE when the loss is not a float32 scalar.
 */
export const gradients = scope.gradients;
/**
 * Sets the loss of this step in the figures of the job: `report(pass.loss)`. Default: the mean of the losses of the step's
 * passes. Throws: CONFIG for a value that is neither a number nor a tensor of one element.
 */
export const report = scope.report;
/**
 * Makes a module, or a layer of tfjs, a unit of FSDP in place, and returns the module. The unit's parameters are sharded over the
 * mesh, gathered for its forward and for its backward, and freed after each. Call it on inner modules first, on the root last.
 * A list of modules makes one unit: gathered before the first one's forward, freed after the last one's.
 * Throws: CONFIG for an option that is unknown or has no meaning here. Source: torch.distributed.fsdp.fully_shard.
 * @example
 * const model = nn.gpt({ layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 });
 * for (const block of model.blocks) fullyShard(block);
 * fullyShard(model);
 */
export const fullyShard = scope.fullyShard;
/** Replicates a module and averages its gradients, in buckets. Source: torch.nn.parallel.DistributedDataParallel. */
export const DDP = scope.DDP;
/** The wrapper of FSDP1, and its strategies, policies and static methods. Source: torch.distributed.fsdp. */
export const FSDP = scope.FSDP;
/** The same as `FSDP`. */
export const FullyShardedDataParallel = scope.FullyShardedDataParallel;
/**
 * DDP and fullyShard in their simplest form, to read and compare: `naive.DDP(model)`, `naive.fullyShard(model)`. Each returns the
 * module. Throws: CONFIG if another strategy was already applied to the model.
 */
export const naive = scope.naive;
/** Converts FairScale's arguments to FSDP's, and warns about arguments that have no effect here. */
export const fromFairScale = scope.fromFairScale;
/** The offload policy of fully_shard: shards are stored on the host. Source: torch.distributed.fsdp.CPUOffloadPolicy. */
export const CPUOffloadPolicy = scope.CPUOffloadPolicy;
/** Runs a layer's forward again in backward instead of storing its activations; changes the layer in place. */
export const checkpointWrapper = scope.checkpointWrapper;
/**
 * Checkpoints layers of a model. The second argument, in the form of a config's `activationCheckpointing`, chooses the layers.
 * Default: all layers.
 */
export const applyActivationCheckpointing = scope.applyActivationCheckpointing;
/** A learning rate that warms up, then follows a cosine. Source: DeepSpeed's WarmupCosineLR. */
export const WarmupCosineLR = scope.WarmupCosineLR;
/** Scales the loss so that float16 gradients do not vanish. Source: torch.amp.GradScaler. */
export const GradScaler = scope.GradScaler;
/** A gate that chooses one of several experts for each row. */
export const TemperatureGating = scope.TemperatureGating;
/** Saves a model and its optimizer into a folder. Every rank must call it. Throws: IO, COLLECTIVE_MISSING. */
export const saveCheckpoint = scope.saveCheckpoint;
/** Loads a saved folder; it may come from another world size and strategy. Every rank must call it. Throws: IO, SHAPE. */
export const loadCheckpoint = scope.loadCheckpoint;
/**
 * Moves parameters and optimizer states to the same model in another placement (other experts per rank, another strategy), and
 * compares each element, bit by bit. Both models are on all ranks, and every rank must call this function; the first model and
 * its optimizer are freed. Throws: CONFIG for models that differ, CHECK, COLLECTIVE_MISSING.
 * @example
 * const sizes = { layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 };
 * const model = nn.gpt(sizes);
 * const optimizer = optim.adamW(DDP(model));
 * const next = fullyShard(nn.gpt(sizes));
 * moveState({ model, optimizer }, { model: next, optimizer: optim.adamW(next) });
 */
export const moveState = scope.moveState;
/** Returns the model of a folder in Hugging Face's format: GPT-2, Llama, Mistral, Qwen2, Wan. Throws: CONFIG, IO, SHAPE. */
export const fromPretrained = scope.fromPretrained;
/** Saves a model's parameters so that transformers can load them. Every rank must call it. Throws: CONFIG, IO, COLLECTIVE_MISSING. */
export const savePretrained = scope.savePretrained;
/**
 * Reads files or arrays for a training loop of your own; `data` has the same forms as in job.train, also with a tokenizer or for
 * images. Rank 0 prepares the data in the job's folder; every rank must call this function. Each `for` reads one epoch, as with
 * torch's DistributedSampler and set_epoch: the microbatches that job.train reads with the same seed, ranks and batch.
 * `loader.length` is the number of these microbatches. A batch is freed when the loop asks for the next batch or ends.
 * `for (const { x, y, counted } of loader.validation)` reads the rows that are never trained on; `counted` is the
 * number of a batch's rows that count in the mean; it is 0 if the rank only repeats rows, so that all ranks run a batch.
 * Throws: CONFIG and IO on all ranks, COLLECTIVE_MISSING.
 * @example
 * const loader = await dataLoader({ path: './my.txt', seq: 32, validation: 0.2 }, { batch: 4, seed: 0 });
 * for (const { x, y } of loader) console.log(x.shape, y.shape);
 */
export const dataLoader = scope.dataLoader;
/** Returns a table of a sharded model's units, with the time that the all-gather of each unit takes on a link. */
export const describe = scope.describe;
/**
 * Sends each row of a tensor to the rank that is given for this row; the result's `back` sends rows back to the ranks from which
 * they came. Every rank must call this function.
 */
export const sparseAllToAll = scope.sparseAllToAll;
/** Measures the error of 16-bit reductions, on synthetic gradients. Every rank must call it. */
export const reductionError = scope.reductionError;
