import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import type { Pass } from '../../../src/engine/autograd/unit';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { StepRecord } from '../../../src/ledger/record';
import type { Job } from '../../../src/session/run/job';
import type { Optimizer } from '../../../src/sharding/optim/optimizer';
import { launchFor, runCell } from '../job-fixture';
import { LOOP_MODELS, type LoopModel } from './loops-by-hand-models';
import type { Strategy } from './own-model-cases';

/** What a loop trains, and how. */
export interface LoopCase {
  readonly model: keyof typeof LOOP_MODELS;
  readonly strategy: Strategy;
  /** Settings of job.train, which the loop by hand writes as calls. */
  readonly settings?: Settings | undefined;
}

interface Settings {
  readonly accumulation?: number;
  readonly clipNorm?: number;
  readonly activationCheckpointing?: 'full';
  readonly mixedPrecision?: 'bf16';
}

/** The steps that each loop makes; the allocations and frees of both are recorded. */
const NUM_STEPS = 2;

/** The loops: the first continues from the initial state, and each later one from the state of the one before. */
const LOOPS: Readonly<Record<string, (job: Job, how: Loop) => Promise<unknown>>> = {
  'a cell with gradients()': (job, how) => runCell(job, cellOf(how, false), 2),
  'a function with gradients()': (job, how) => job.on('all').run(loopInFunction, how, false),
  'a cell with loss.backward()': (job, how) => runCell(job, cellOf(how, true), 3),
  'a function with loss.backward()': (job, how) => job.on('all').run(loopInFunction, how, true),
};

/** What a loop needs to know; plain data, which is sent to ranks. */
interface Loop {
  readonly first: number;
  readonly end: number;
  readonly accumulation: number;
  readonly clipNorm: number | null;
}

/** Builds a model as a cell does, with the names `net`, `opt`, `batchOf` and `lossOf` for later cells. */
function setupCell({ model, strategy, settings = {} }: LoopCase, config: object): string {
  const { model: build, data, loss, units } = LOOP_MODELS[model];
  const { activationCheckpointing, mixedPrecision } = settings;
  const mesh = "initDeviceMesh([2, 2], ['replicate', 'shard'])";
  return `
    const scope = { tf, nn, rank, worldSize };
    const net = (${build})(scope);
    const batchOf = (index) => (${data})(scope, index);
    const outputOf = (batch) => (typeof net === 'function' ? net(...batch.inputs) : net.apply(...batch.inputs));
    const lossOf = (batch) => ${loss === undefined ? 'outputOf(batch)' : `(${loss})(outputOf(batch), batch, scope)`};
    ${activationCheckpointing === undefined ? '' : `applyActivationCheckpointing(net, '${activationCheckpointing}');`}
    const sharded = {
      strategy: '${strategy}',
      ${strategy === 'HYBRID_SHARD' ? `mesh: ${mesh},` : ''}
      ${mixedPrecision === undefined ? '' : "mpPolicy: new MixedPrecisionPolicy({ paramDtype: 'bfloat16' }),"}
    };
    ${
      strategy === 'NO_SHARD'
        ? `DDP(net, { policy: lambdaAutoWrapPolicy({ lambdaFn: ({ path }) => ${JSON.stringify(units)}.includes(path) }) });`
        : `for (const path of ${JSON.stringify(units)}) fullyShard(path.split('.').reduce((part, name) => part[name] ?? part.at(Number(name)), net), sharded);
           fullyShard(net, sharded);`
    }
    const opt = optim.adamW(net, ${JSON.stringify(config)});`;
}

/** The loop as a cell has it. */
function cellOf({ first, end, accumulation, clipNorm }: Loop, isEager: boolean): string {
  const pass = isEager
    ? `tf.tidy(() => { lossOf(batch).backward(1 / ${accumulation}); });`
    : `const pass = gradients(() => lossOf(batch));
       pass.backward(1 / ${accumulation});
       pass.loss.dispose();`;
  return `
    for (let step = ${first}; step < ${end}; step++) {
      opt.zeroGrad();
      for (let micro = 0; micro < ${accumulation}; micro++) {
        const batch = batchOf(step * ${accumulation} + micro);
        ${pass}
        tf.dispose(batch);
      }
      optim.clipGradNorm(net, ${clipNorm});
      opt.step();
    }`;
}

/** The loop as a function that job.on().run sends. */
function loopInFunction(scope: RankScope, how: Loop, isEager: boolean): void {
  const { tf, optim, gradients } = scope;
  const { net, opt, batchOf, lossOf } = scope as unknown as Variables;
  for (let step = how.first; step < how.end; step++) {
    opt.zeroGrad();
    for (let micro = 0; micro < how.accumulation; micro++) {
      const batch = batchOf(step * how.accumulation + micro);
      if (isEager) tf.tidy(() => lossOf(batch).backward(1 / how.accumulation));
      else {
        const pass = gradients(() => lossOf(batch));
        pass.backward(1 / how.accumulation);
        pass.loss.dispose();
      }
      tf.dispose([...batch.inputs, ...(batch.y === undefined ? [] : [batch.y])]);
    }
    optim.clipGradNorm(net, how.clipNorm);
    opt.step();
  }
}

/** The variables of the setup's cell. */
interface Variables {
  readonly net: Parameters<RankScope['optim']['clipGradNorm']>[0];
  readonly opt: Optimizer;
  readonly batchOf: (index: number) => ReturnType<LoopModel['data']>;
  readonly lossOf: (batch: ReturnType<LoopModel['data']>) => Pass['loss'];
}

/** What a record says about bytes. */
function bytesOf({ start, memory, collectives, spans }: StepRecord) {
  const updated = spans.findLast(({ name }) => name === 'optimizer')?.end ?? Number.NaN;
  const { owners, curve } = memory;
  const all = curve ?? assert.fail('the record has no curve');
  const ownerText = (i: number): string => {
    const owner = owners[i] ?? assert.fail('an owner is missing');
    const { cause, module, space, declared = '', part = '' } = owner;
    return [cause, module, space, declared, part].join(' ').trim();
  };
  const held = (bytes: readonly number[]): string[] =>
    bytes.flatMap((count, i) => (count === 0 ? [] : [`${ownerText(i)}: ${count}`])).sort();
  const events = all.seconds.map((seconds, i) => ({
    isLate: start + seconds > updated,
    text: `${all.deltaBytes[i]} ${ownerText(all.owner[i] ?? -1)}`,
  }));
  // Collectives of different groups may end in any order.
  const sent = collectives
    .toSorted((a, b) => a.group.localeCompare(b.group) || a.number - b.number)
    .map(({ op, ranks, count, bytes, wireBytes, cause, module, wireDType, posted }) => ({
      isLate: posted > updated,
      text: [op, ranks.join(), count, bytes, wireBytes, cause, module, wireDType].join(' ').trim(),
    }));
  const texts = (of: readonly { isLate: boolean; text: string }[], isLate: boolean): string[] =>
    of.filter((one) => one.isLate === isLate).map(({ text }) => text);
  return {
    atStart: held(memory.atStart),
    events: texts(events, false),
    atPeak: held(memory.atPeak),
    atRest: held(memory.atRest),
    peakBytes: memory.peakBytes,
    numBuffersAtRest: memory.numBuffersAtRest,
    collectives: texts(sent, false),
    /** What follows the optimizer's update. */
    after: { events: texts(events, true), collectives: texts(sent, true) },
  };
}

/** Only the trainer averages its loss over the ranks, after the update. */
function requireLoss(after: ReturnType<typeof bytesOf>['after'], ranks: number): void {
  const all = Array.from({ length: ranks }, (_, rank) => rank).join();
  const [{ length }, [reduced = '']] = [after.collectives, after.collectives];
  assert.equal(length, 1, 'the trainer reduces its loss once');
  assert.ok(reduced.startsWith(`allReduce ${all} 1 4 `) && reduced.includes(' loss'), reduced);
  assert.deepEqual(after.events, ['4 comm  device', '-4 comm  device']);
}

/** Checks that loops by hand have the ledger of job.train, to the byte. */
export async function checkLoopsByHand(context: TestContext, cases: readonly LoopCase[]): Promise<void> {
  for (const each of cases) {
    const { model, strategy, settings = {} } = each;
    const { model: build, data, loss, units } = LOOP_MODELS[model];
    const isHybrid = strategy === 'HYBRID_SHARD';
    const ranks = isHybrid ? 4 : 2;
    // A cell cannot free a sharded model, so each case has its own job.
    const job = await launchFor(context, { ranks });
    const run = await job.train({
      model: build,
      data,
      ...(loss === undefined ? {} : { loss }),
      ...settings,
      parallel: {
        strategy,
        wrap: units.length === 0 ? 'root' : { modules: [...units] },
        ...(isHybrid ? { mesh: { dpReplicate: 2, dpShard: 2 } } : {}),
      },
    } as unknown as TrainConfigInput); // its functions have more general types
    const trained: ReturnType<typeof bytesOf>[] = [];
    for (const _ of Object.keys(LOOPS)) {
      await run.step(NUM_STEPS);
      trained.push(...run.records.ofStep(run.losses.length).map(bytesOf));
    }
    const { losses } = run;
    await run.dispose();
    trained.forEach(({ after }) => {
      requireLoss(after, ranks);
    });

    const { lr, betas, eps, weightDecay } = run.config.optimizer;
    await runCell(job, setupCell(each, { lr, betas, eps, weightDecay }), 1);
    job.record('by hand');
    for (const [at, [name, loop]] of Object.entries(LOOPS).entries()) {
      const first = at * NUM_STEPS;
      const { accumulation, clipNorm } = run.config;
      await loop(job, { first, end: first + NUM_STEPS, accumulation, clipNorm });
      const newest = job.losses.length;
      const what = `${name}: ${model} under ${strategy} ${JSON.stringify(settings)}`;
      job.view.records
        .filter(({ step }) => step === newest)
        .forEach((record, rank) => {
          const { after, ...own } = bytesOf(record);
          const { after: _, ...expected } = trained[at * ranks + rank] ?? assert.fail('no record');
          // The cell owns a model's output that it holds outside of gradients(): backward does not free it, the tidy scope does.
          const isHeld = loss !== undefined && name.includes('loss.backward()');
          const inOrder = (events: string[]): string[] => (isHeld ? events.sort() : events);
          assert.deepEqual(
            { ...own, events: inOrder(own.events) },
            { ...expected, events: inOrder(expected.events) },
            what,
          );
          assert.deepEqual(after, { events: [], collectives: [] }, what);
        });
    }
    const errors = job.losses.map((value, i) => Math.abs(value - (losses[i] ?? Number.NaN)));
    assert.ok(Math.max(...errors) < 1e-6, `${model} under ${strategy}: losses ${job.losses} and ${losses}`);
    await job.shutdown();
  }
}
