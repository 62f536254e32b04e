import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { GPT, launchTorch } from '../../torch/torch-fixture';
import { checkPlanted, collectNotes, NOTE_SECONDS, type Planted } from './shown-hangs';

/** Ways to send and to receive a tensor. */
const WAYS = {
  blocking: ['dist.send(x, rank + 1)', 'dist.recv(x, rank - 1)'],
  asynchronous: ['dist.isend(x, rank + 1).wait()', 'dist.irecv(x, rank - 1).wait()'],
  batched: [
    '[w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, rank + 1)])]',
    '[w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, rank - 1)])]',
  ],
} as const;

/** Four stages that send four microbatches by hand; line 4 receives, `before` is line 5, line 6 sends. */
const byHand = ({
  before = 'pass',
  sends = 'rank < 3',
  way = 'blocking',
}: {
  before?: string;
  sends?: string;
  way?: keyof typeof WAYS;
}): string => `import os, signal, time
x = torch.ones(2)
for k in range(4):
    if rank > 0: ${WAYS[way][1]}
    ${before}
    if ${sends}: ${WAYS[way][0]}`;

/** A pipeline of four stages and four microbatches; `forward` is line 10 of a stage, `before` is line 14, the step is line 15. */
const pipeline = ({ forward = 'pass', before = 'pass', schedule = 'Schedule1F1B' }): string =>
  `import time
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.seen = 0
    def forward(self, x):
        self.seen += 1
        ${forward}
        return self.fc(x)
stage = PipelineStage(Layer(), rank, 4, torch.device('cpu'))
schedule = ${schedule}(stage, 4, loss_fn=torch.nn.functional.mse_loss)
${before}
schedule.step(torch.ones(8, 4)) if rank == 0 else schedule.step(target=torch.ones(8, 4))`;

/** Two all-to-alls; `before` is line 4, the second is line 5, `after` is line 6. */
const exchange = ({
  before = 'pass',
  second = 'dist.all_to_all_single(torch.empty(8), x)',
  after = 'pass',
}): string => `import os, signal
x = torch.ones(8)
dist.all_to_all_single(torch.empty(8), x)
${before}
${second}
${after}`;

/** An all-to-all of the ranks of two pairs; `before` is line 5, the all-to-all is line 6. */
const inPairs = (
  before: string,
  call: string,
): string => `pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
ep = pairs[rank // 2]
x = torch.ones(8)
dist.all_to_all_single(torch.empty(8), x, group=ep)
${before}
${call}dist.all_to_all_single(torch.empty(8), x, group=ep)
dist.barrier()`;

const LOOP = 'while rank == 2: pass';
const MISSING_ALL_TO_ALL =
  /^ranks 0, 1, 3 wait in allToAll #\d+ \(cell 7, line 5\) for rank 2, which runs cell 7, line 4 /;
const MISSING_MESSAGE =
  /^rank 1 waits in send #4 \(cell 7, line 6\) for rank 2, which runs cell 7, line 5 .*\nrank 3 waits in recv #3 \(cell 7, line 4\) for rank 2, which runs/;

/** Cells of four ranks. */
const PLANTED: Planted = {
  'a stage that loops before it sends microbatch 2': [
    byHand({ before: 'while rank == 2 and k == 2: pass' }),
    MISSING_MESSAGE,
  ],
  'a stage that sleeps between asynchronous sends and receives': [
    byHand({ before: 'if rank == 2 and k == 2: time.sleep(600)', way: 'asynchronous' }),
    MISSING_MESSAGE,
  ],
  'a stage that loops between batches of sends and receives': [
    byHand({ before: 'while rank == 2 and k == 2: pass', way: 'batched' }),
    MISSING_MESSAGE,
  ],
  'a stage that leaves out the send of microbatch 2': [
    byHand({ sends: 'rank < 3 and not (rank == 2 and k == 2)' }),
    /rank 3 waits in recv #4 \(cell 7, line 4\), but rank 2 ended without calling it/,
  ],
  'a stopped stage': [
    byHand({ before: 'if rank == 2 and k == 2: os.kill(os.getpid(), signal.SIGSTOP)' }),
    /rank 3 waits in recv #\d+ \(cell 7, line 4\) for rank 2, which is stopped/,
  ],
  'a stage of 1F1B whose forward loops at microbatch 2': [
    pipeline({ forward: 'while rank == 2 and self.seen == 4: pass' }),
    /rank 1 waits in (send|recv) #\d+ \(the (output|gradient) of microbatch \d from stage [12], module stage 1 \| 2, cell 7, line 15\) for rank 2, which runs cell 7, line 10 .*\nrank 3 waits in (send|recv) #\d+ \(the (output|gradient) of microbatch \d from stage [23], module stage 2 \| 3, cell 7, line 15\) for rank 2/,
  ],
  'a stage of GPipe whose forward sleeps': [
    pipeline({ forward: 'if rank == 2 and self.seen == 4: time.sleep(600)', schedule: 'ScheduleGPipe' }),
    /rank 3 waits in recv #\d+ \(the output of microbatch \d from stage 2, module stage 2 \| 3, cell 7, line 15\) for rank 2, which runs cell 7, line 10 /,
  ],
  'a stage that does not begin its step': [
    pipeline({ before: 'if rank == 2: time.sleep(600)' }),
    /rank 1 waits in send #1 \(the set-up of the pipeline, module stage 1, cell 7, line 15\) for rank 2, which runs cell 7, line 14 /,
  ],
  'an all-to-all that a rank does not reach': [exchange({ before: LOOP }), MISSING_ALL_TO_ALL],
  'an asynchronous all-to-all': [
    exchange({
      before: LOOP,
      second: 'dist.all_to_all_single(torch.empty(8), x, async_op=True).wait()',
    }),
    MISSING_ALL_TO_ALL,
  ],
  'a functional all-to-all': [
    exchange({
      before: LOOP,
      second:
        'torch.distributed._functional_collectives.all_to_all_single(x, None, None, dist.group.WORLD).sum()',
    }),
    MISSING_ALL_TO_ALL,
  ],
  'an all-to-all that a rank leaves out': [
    exchange({
      second: 'if rank != 2: dist.all_to_all_single(torch.empty(8), x)',
      after: 'dist.all_reduce(x)',
    }),
    /^ranks 0, 1, 3 wait in allToAll #(\d+) \(cell 7, line 5\) for rank 2, which waits in allReduce #\1 \(cell 7, line 6\)[\s\S]*Let all ranks make the calls of all their groups in the same order/,
  ],
  'an all-to-all of a group that a rank does not reach': [
    inPairs(LOOP, ''),
    /rank 3 waits in allToAll #2 \(group [^)]*, cell 7, line 6\) for rank 2, which runs cell 7, line 5 /,
  ],
  'an all-to-all of a group that a rank leaves out': [
    inPairs('', 'if rank != 2: '),
    /rank 3 waits in allToAll #2 \(group [^)]*, cell 7, line 6\) for rank 2, which waits in barrier #\d+ \(cell 7, line 7\)[\s\S]*ranks 2-3 wait for each other/,
  ],
};

const cellWith = (job: Job, source: string): Promise<unknown> =>
  job.runPython({ source, cell: 7, selection: 'all' }, () => undefined).catch((error: unknown) => error);

test('a note or an error names the stage, the microbatch or the all-to-all of PyTorch that does not come', async (context) => {
  const job = await launchTorch(context, { ranks: 4 });
  await checkPlanted(context, job, PLANTED, (code) => cellWith(job, code));
});

test('a note of a training with a pipeline of PyTorch names the microbatch and both stages', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const shown = collectNotes(context);
  const run = await job.train({ model: GPT, batch: 4, parallel: { pp: 2, microbatches: 4 } });
  await run.step(1);
  const stepping = run.step(100_000).catch((error: unknown) => error);
  process.kill(job.ranks[1]?.pid ?? 0, 'SIGSTOP');
  const note = await shown.next(NOTE_SECONDS);
  process.kill(job.ranks[1]?.pid ?? 0, 'SIGCONT');
  await job.interrupt();
  await stepping;
  assert.match(
    note,
    /^rank 0 waits in \w+ #\d+ \((the (output|gradient) of microbatch \d from stage \d, )?group .*module stage 0.*\) for rank 1, which is stopped/,
  );
});
