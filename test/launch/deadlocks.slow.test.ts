import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANG_MS, launchForAll, resultsOf, runCell } from '../session/job-fixture';

const shared = launchForAll({ ranks: 3 });

/** PyTorch's ranks (gloo) wait in these programs until the group's timeout, also with tensors of 4 elements. */
const DEADLOCKS = {
  'two ranks that both receive first': {
    cell: 'if (rank < 2) dist.recv(tf.zeros([4]), { src: 1 - rank })',
    text: /ranks 0-1 wait for each other and cannot go on: rank 0 in recv #1 \(cell 1, line 1\) for rank 1, rank 1 in recv #1 .* for rank 0\. Let one of them send/,
  },
  'a ring in which every rank sends first': {
    cell: 'dist.send(tf.ones([4]), { dst: (rank + 1) % 3 }); dist.recv(tf.zeros([4]), { src: (rank + 2) % 3 })',
    text: /ranks 0-2 wait for each other .*rank 0 in send #1 .* for rank 1, rank 1 in send #1 .* for rank 2, rank 2 in send #1 .* for rank 0\. A send ends when/,
  },
  'two ranks that call their groups in other orders': {
    cell: `const [a, b] = [1, 2].map(() => dist.newGroup([0, 1]));
      if (rank < 2) for (const group of rank === 0 ? [a, b] : [b, a]) dist.barrier({ group });`,
    text: /rank 0 in barrier #1 \(group world\[0,1\], cell 1, line 2\) for rank 1, rank 1 in barrier #1 \(group world\[0,1\] #2/,
  },
};

for (const [name, { cell, text }] of Object.entries(DEADLOCKS)) {
  test(`${name} get an error that names the circle, and the job continues`, {
    timeout: HANG_MS,
  }, async () => {
    const job = shared();
    const error = await runCell(job, `{ ${cell} }`).then(() => assert.fail('it ended'), String);
    assert.match(error, text);
    assert.deepEqual(resultsOf(await runCell(job, 'dist.allReduce(tf.scalar(rank)).dataSync()[0]')), {
      0: '3',
      1: '3',
      2: '3',
    });
  });
}

test('a ring of asynchronous sends is no deadlock, also behind a rank that is late', {
  timeout: HANG_MS,
}, async () => {
  const late = 'if (rank === 2) await new Promise((resolve) => setTimeout(resolve, 2500));';
  const ring = `const x = tf.zeros([4]); const work = dist.send(tf.fill([4], rank), { dst: (rank + 1) % 3, asyncOp: true });
    dist.recv(x, { src: (rank + 2) % 3 }); work.wait(); x.dataSync()[0]`;
  const events = await runCell(shared(), `${late} ${ring}`);
  assert.deepEqual(resultsOf(events), { 0: '2', 1: '0', 2: '1' });
});
