import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { RankEvent } from '../../src/launch/control/messages';
import type { StepRecord } from '../../src/ledger/record';
import type { Job } from '../../src/session/run/job';
import { launch } from '../../src/session/run/launch';
import { byCause, byCollective, collectivesByFormula, loop, NET, setup, TOTAL, WORLD } from './cell-loops';

/** What loops by hand do besides whole steps, and what the ledger must not do. */
describe('the ledger of cells of Python', () => {
  let job: Job;
  let cell = 0;

  before(async () => {
    job = await launch({ engine: 'torch', ranks: WORLD });
    await python(NET);
  });
  after(() => job.shutdown());
  beforeEach(async () => {
    await python('losses = []; model = optimizer = loss = critic = compiled = p = None');
    job.record('case');
  });

  const python = async (source: string, selection = 'all'): Promise<RankEvent[]> => {
    const events: RankEvent[] = [];
    await job.runPython({ source, cell: ++cell, selection }, (event) => events.push(event));
    return events;
  };
  const newest = (): StepRecord => {
    const record = job.view.records.filter(({ rank }) => rank === 0).at(-1);
    return record ?? assert.fail('nothing is recorded');
  };
  const textOf = (events: readonly RankEvent[]): string =>
    events.map((event) => (event.kind === 'stream' ? event.text : '')).join('');

  it('has the whole steps of a cell that fails, whose traceback is the user’s', async () => {
    await python(setup('plain', 'AdamW'));
    const failing = `${loop('plain', 0, 5)}    if step == 2: torch.ones(2, 3) @ torch.ones(2, 3)`;
    await assert.rejects(python(failing), (error: Error) => {
      assert.match(error.message, /shapes cannot be multiplied/);
      assert.doesNotMatch(String(error.stack), /shardlab_torch/);
      return true;
    });
    assert.equal(job.losses.length, 3);
    await python(loop('plain', 3, 5));
    assert.equal(job.losses.length, 5);
    assert.deepEqual(byCollective(newest(), 'plain'), collectivesByFormula('plain'));
  });

  it('has the whole steps of a cell that is interrupted', async () => {
    await python(setup('plain', 'SGD'));
    const endless = `${loop('plain', 0, 4)}\nprint('four', flush=True)\nwhile True: pass`;
    let isThere = (): void => undefined;
    const four = new Promise<void>((resolve) => {
      isThere = resolve;
    });
    const running = job.runPython({ source: endless, cell: ++cell, selection: 'all' }, () => isThere());
    const stopped = running.catch((error: unknown) => error);
    await four;
    await job.interrupt();
    assert.match(String(await stopped), /interrupted/);
    assert.equal(job.losses.length, 4);
    await python(loop('plain', 4, 6));
    assert.equal(job.losses.length, 6);
    assert.deepEqual(byCollective(newest(), 'plain'), collectivesByFormula('plain'));
  });

  it('forgets the bytes of a tensor although an interrupt ended the callback that forgets them', async () => {
    const said = await python(`
import sys
def interrupt(frame, event, arg):
    if frame.f_code.co_name == 'freed':
        raise KeyboardInterrupt
large = torch.ones(10_000)
sys.settrace(interrupt)
del large
sys.settrace(None)`);
    assert.match(textOf(said), /KeyboardInterrupt/);
    await python(`${setup('plain', 'SGD')}\n${loop('plain', 0, 1)}`);
    assert.ok(newest().memory.peakBytes < 40_000, String(newest().memory.peakBytes));
  });

  it('keeps no tensor and no model alive', async () => {
    await python(`import gc, weakref\n${setup('plain', 'SGD')}\n${loop('plain', 0, 2)}`);
    await python(`
refs = [weakref.ref(one) for one in (model, optimizer, loss, *model.parameters())]
storage = weakref.ref(model.wte.weight.untyped_storage())
for step in range(2, 4):
    out = model(batch(step)[:, :-1])
    inner = weakref.ref(out)
    out.sum().backward()
    del out
    assert inner() is None
    optimizer.step()
del model, optimizer, loss
assert [one() for one in refs] == [None] * len(refs) and storage() is None`);
    // FSDP's modules refer to each other, so only the garbage collection frees them.
    await python(
      `${setup('fsdp2', 'AdamW')}\n${loop('fsdp2', 0, 2)}\nrefs = [weakref.ref(model), weakref.ref(optimizer)]`,
    );
    await python('del model, optimizer, loss; gc.collect(); assert [one() for one in refs] == [None, None]');
  });

  it('counts as many bytes as there are, also after many steps', async () => {
    await python(`
import gc
def live_bytes():
    found = {}
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor):
            tensor = item._local_tensor if hasattr(item, '_local_tensor') else item
            found[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
    return sum(found.values())
${setup('fsdp2', 'AdamW')}
${loop('fsdp2', 0, 40)}
counted = live_bytes()`);
    const counted = (await job.get('counted')) as unknown as number[];
    for (const { rank, memory } of job.view.records.filter(({ step }) => step === 40)) {
      assert.equal(memory.restBytes + memory.elsewhereBytes, counted[rank]);
    }
    assert.equal(job.losses.length, 40);
  });

  it('does not wait at the end of a step until its gradients are freed', async () => {
    await python(`
import shardlab_torch.cell_memory as recorder
num_sleeps, sleep = 0, recorder.sleep
def counting(seconds):
    global num_sleeps
    num_sleeps += 1
    sleep(seconds)
recorder.sleep = counting
${setup('fsdp2', 'AdamW')}
${loop('fsdp2', 0, 20)}
recorder.sleep = sleep`);
    const most = Math.max(...((await job.get('num_sleeps')) as unknown as number[]));
    // If each step waited until the limit, there would be about 100 sleeps per step.
    assert.ok(most < 500, String(most));
  });

  it('has the bytes of one model after a model is made again under its name', async () => {
    for (let i = 0; i < 2; i++) await python(`${setup('plain', 'SGD')}\n${loop('plain', 0, 2)}`);
    const record = newest();
    assert.equal(byCause(record, 'atRest')['param.full'], TOTAL);
    const modules = new Set(record.memory.owners.map(({ module }) => module));
    assert.ok(modules.has('blocks.0.fc1') && ![...modules].some((module) => module.startsWith('model')));
  });

  it('names the modules of a second model by its variable', async () => {
    await python(`
model, critic = Net(), nn.Linear(${11}, 1)
optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    critic(model(batch(step)[:, :-1])).mean().backward()
    optimizer.step()`);
    const { owners, atRest } = newest().memory;
    const held = owners.filter(({ cause }, i) => cause === 'param.full' && (atRest[i] ?? 0) > 0);
    assert.ok(held.some(({ module }) => module === 'critic') && held.some(({ module }) => module === 'wte'));
  });

  it('counts evaluation as no step, and accumulated passes as one', async () => {
    await python(setup('fsdp2', 'AdamW'));
    await python(`
for step in range(2):
    optimizer.zero_grad()
    for micro in range(2):
        loss = loss_of(model, 2 * step + micro)
        loss.backward()
        losses.append(loss.item())
    optimizer.step()
    model.eval()
    with torch.no_grad():
        loss_of(model, 7)
    model.train()`);
    assert.equal(job.losses.length, 2);
    const byRank = (await job.get('losses')) as unknown as number[][];
    const all = byRank.flatMap((losses) => losses.slice(2));
    assert.ok(Math.abs((job.losses[1] ?? 0) - all.reduce((sum, loss) => sum + loss, 0) / 4) < 1e-6);
    const counts = (record: StepRecord) =>
      record.collectives.filter(({ op }) => op === 'reduceScatter').length;
    assert.equal(counts(newest()), 2 * 3);
    // A cell that only evaluates is drawn until the next step replaces it, and has no loss.
    await python('with torch.no_grad(): loss_of(model, 7)');
    assert.equal(job.losses.length, 2);
    assert.deepEqual(
      newest().collectives.map(({ op, module }) => [op, module]),
      // The root is still whole after the evaluation before.
      ['blocks.0', 'blocks.1'].map((unit) => ['allGather', unit]),
    );
  });

  it('takes the loss that report gives, and ends steps of a loop without an optimizer', async () => {
    await python(`
model = Net()
for step in range(3):
    model.zero_grad()
    loss = loss_of(model, step)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    report(step + rank)`);
    assert.deepEqual(job.losses, [0.5, 1.5, 2.5]);
    await python('model.zero_grad(); loss_of(model, 0).backward(); report(float("nan"))');
    assert.equal(Number.isNaN(job.losses.at(-1)), true);
    job.record('zeroed');
    await python(`
for step in range(3, 6):
    model.zero_grad()
    loss = loss_of(model, step)
    loss.backward()
    losses.append(loss.item())
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad`);
    const [one = [], two = []] = (await job.get('losses')) as unknown as number[][];
    assert.deepEqual(
      job.losses,
      one.map((loss, i) => (loss + (two[i] ?? Number.NaN)) / 2),
    );
    await assert.rejects(
      python('report("low")'),
      /report takes a number or a tensor of one element, not str/,
    );
  });

  it('knows the norm of gradients and the passes of a closure', async () => {
    await python(`
${setup('fsdp2', 'AdamW')}
loss_of(model, 0).backward()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor().item()
optimizer.step()`);
    const norms = newest().collectives.filter(({ cause }) => cause === 'norm');
    assert.deepEqual(
      norms.map(({ op, bytes }) => [op, bytes]),
      [['allReduce', 4 * 11]],
    );
    const { steps } = await job.frames();
    const [gradNorm] = steps.column('gradNorm').values;
    assert.deepEqual(await job.get('norm'), [gradNorm, gradNorm]);
    job.record('closures');
    await python(`
model = Net()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
for step in range(3):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss
    optimizer.step(closure)`);
    assert.equal(job.losses.length, 3);
  });

  it('records the loss before a scaler multiplied it, and a step whose update a scaler left out', async () => {
    await python(`
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**10)
for step in range(3):
    optimizer.zero_grad()
    loss = loss_of(model, step)
    losses.append(loss.item())
    scaler.scale(loss).backward()
    if step == 1:
        model.head.bias.grad[0] = float('inf')
    scaler.step(optimizer)
    scaler.update()
assert scaler.get_scale() == 2.0**9`);
    const [one = [], two = []] = (await job.get('losses')) as unknown as number[][];
    assert.deepEqual(
      job.losses,
      one.map((loss, i) => (loss + (two[i] ?? Number.NaN)) / 2),
    );
    // The update is left out in another cell than its backward.
    await python(`
optimizer.zero_grad()
scaler.scale(loss_of(model, 3)).backward()
model.head.bias.grad[0] = float('inf')`);
    assert.equal(job.losses.length, 3);
    await python('scaler.step(optimizer); scaler.update()');
    assert.equal(job.losses.length, 4);
  });

  it('sees the schedule of a pipeline and the collectives of tensor parallelism', async () => {
    await python(`
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
model = nn.Linear(16, 16)
schedule = ScheduleGPipe(PipelineStage(model, rank, 2, device), 2, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    schedule.step(torch.randn(4, 16)) if rank == 0 else schedule.step(target=torch.randn(4, 16), losses=[])
    optimizer.step()
schedule = None`);
    const sent = newest().collectives.map(({ op, cause, bytes }) => `${op} ${cause} ${bytes}`);
    assert.deepEqual(
      sent,
      ['send', 'send', 'recv', 'recv'].map((op) => `${op} activation ${2 * 16 * 4}`),
    );
    assert.equal(newest().spans.filter(({ pipeline }) => pipeline !== undefined).length, 4);
    // Only the last stage has a loss.
    assert.ok(job.losses.length === 2 && job.losses.every(Number.isFinite));
    await python(`
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
model = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 16))
parallelize_module(model, init_device_mesh(device.type, (2,)), {'0': ColwiseParallel(), '1': RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()`);
    const reduced = newest().collectives.map(({ op, cause, bytes }) => `${op} ${cause} ${bytes}`);
    assert.deepEqual(reduced, [`allReduce activation ${4 * 16 * 4}`]);
  });

  it('sees the loop of a DataLoader with workers, and of ranks that run alone', async () => {
    await python(`
from torch.utils.data import DataLoader
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [batch(step)[0] for step in range(8)]
for ids in DataLoader(rows, batch_size=2, num_workers=2):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    optimizer.step()`);
    assert.equal(job.losses.length, 4);
    job.record('one rank');
    await python(
      `model = Net()\n${setup('plain', 'SGD')}\nloss_of(model, 0).backward()\noptimizer.step()`,
      '1',
    );
    assert.deepEqual(
      job.view.records.map(({ step, rank, world }) => [step, rank, world]),
      [[1, 1, 1]],
    );
  });

  it('lets torch.compile compile, and says what it then does not see', async () => {
    const source = `
torch._dynamo.reset()
model = Net()
compiled = torch.compile(model, backend='aot_eager')
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = loss_of(compiled, step)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
graphs = torch._dynamo.utils.counters['stats']['unique_graphs']
breaks = sum(torch._dynamo.utils.counters['graph_break'].values())`;
    const said = textOf(await python(source));
    assert.match(said, /note: this cell runs code of torch\.compile/);
    assert.deepEqual(
      [await job.get('graphs'), await job.get('breaks')],
      [
        [1, 1],
        [0, 0],
      ],
    );
    assert.equal(job.losses.length, 3);
    const { 'param.full': parameters, 'grad.full': gradients } = byCause(newest(), 'atRest');
    assert.deepEqual([parameters, gradients], [TOTAL, TOTAL]);
    assert.doesNotMatch(textOf(await python(source)), /note:/);
  });

  it('stores a limited number of events of a step that does not end, and its whole peak', async () => {
    const said = await python(`
model = Net()
import shardlab_torch.cell_memory as limits
most, limits.MOST_CHANGES = limits.MOST_CHANGES, 300
with torch.no_grad():
    for step in range(20):
        loss_of(model, step)
        if step == 5:
            large = torch.ones(10_000)
            del large
for _ in range(20_005):
    dist.barrier()
limits.MOST_CHANGES = most`);
    const { memory, collectives } = newest();
    assert.equal(memory.curve, null);
    assert.ok(memory.peakBytes >= 40_000 + TOTAL && memory.restBytes < 40_000, String(memory.peakBytes));
    assert.equal(byCause(newest(), 'atRest')['param.full'], TOTAL);
    assert.equal(collectives.length, 20_000);
    assert.match(textOf(said), /lacks the last 5 of them/);
  });

  it('runs cells with values that it cannot read', async () => {
    await python(`
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    p = torch.ones(3, requires_grad=True)
    p.sum().backward()
p.sum()`);
    await python('torch.nested.nested_tensor([torch.ones(1)], layout=torch.strided)');
    await python(`
model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1))
losses.append(losses)`);
    // After other work than cells, the ledger looks at all variables.
    await job.get('rank');
    await python(`
model(torch.ones(2, 3)).sum().backward()
torch.optim.SGD(model.parameters(), lr=0.1).step()`);
    assert.equal(byCause(newest(), 'atRest')['param.full'], (4 * 3 + 4 + 4 + 1) * 4);
  });

  it('runs a cell, with a warning, if the ledger itself fails', async () => {
    await python(`
import shardlab_torch.cell_memory as recorder
whole, recorder.CellMemory.open = recorder.CellMemory.open, None`);
    const said = textOf(await python('p = 1; recorder.CellMemory.open = whole'));
    assert.match(said, /warning: the ledger of this cell failed, so figures lack the cell:/);
    await python(`assert p == 1\n${setup('plain', 'SGD')}\n${loop('plain', 0, 2)}`);
    assert.equal(job.losses.length, 2);
  });

  it('does not change what the user’s code does', async () => {
    // With hooks for saved tensors, torch would not notice this change.
    const changed = `
x = torch.ones(3, requires_grad=True)
y = x.exp()
y.add_(1)
y.sum().backward()`;
    await assert.rejects(python(changed), /modified by an inplace operation/);
    await python(`
import copy, io
model = Net()
leaf = torch.ones(1, 4, ${6}, requires_grad=True)
for _ in range(3):
    model.blocks[0](leaf).sum().backward()
assert not leaf._backward_hooks
assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
torch.save(copy.deepcopy(model).state_dict(), io.BytesIO())`);
  });

  it('leaves nothing in place between cells', async () => {
    // A thread looks after the cell has ended.
    await python(`
import sys, threading
left = None
def look():
    global left
    modules, optimizers = torch.nn.modules.module, sys.modules['torch.optim.optimizer']
    hooks = [modules._global_forward_hooks, modules._global_forward_pre_hooks]
    hooks += [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
    places = [(torch.autograd, '_engine_run_backward'), (nn.Module, '__init__'), (torch._C._distributed_c10d.Work, 'wait')]
    places.append((torch.nn.utils.clip_grad, '_get_total_norm'))
    left = [str(one) for one in hooks if one]
    left += [name for place, name in places if 'shardlab' in str(getattr(getattr(place, name), '__module__', ''))]
    left += ['resize_'] if 'resize_' in vars(torch.UntypedStorage) else []
timer = threading.Timer(1.5, look)
timer.start()
${setup('fsdp2', 'AdamW')}
${loop('fsdp2', 0, 1)}`);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await python('timer.join()');
    assert.deepEqual(await job.get('left'), [[], []]);
  });
});
