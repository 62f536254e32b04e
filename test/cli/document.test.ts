import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { claimOf, DOCUMENTS, type DocumentName, environmentOf } from '../../src/claims/claim';
import { measureAll } from '../../src/cli/doctor/command';
import { shardlab } from './run-command';

/** Without a Python that has PyTorch, and without programs. */
const BARE = { PATH: '/nowhere', HOME: '/nowhere' };

const NAMES = Object.keys(DOCUMENTS) as DocumentName[]; // the keys are the type's
const EACH = NAMES.flatMap((document) => environmentOf(document).map((part) => ({ document, part })));

test('every document states an environment, and every part says what needs it in whole sentences', () => {
  for (const { document, part } of EACH) {
    const where = `${document}: ${part.item}`;
    assert.match(part.why, /^\S.*\.$/s, where);
    assert.ok(part.section !== '' && part.stated !== '', where);
  }
  for (const document of NAMES) {
    const items = environmentOf(document).map(({ item }) => item);
    assert.ok(items.length > 0, document);
    assert.equal(new Set(items).size, items.length, document);
  }
});

test("every claim that a part names is one of the part's document", () => {
  for (const { document, part } of EACH) {
    if (part.claim !== undefined) assert.equal(claimOf(part.claim).document, document, part.item);
  }
});

test('the stated versions of the Wan2.2 document are those of its appendix', () => {
  const stated = Object.fromEntries(environmentOf('wan22-fsdp').map((part) => [part.item, part.stated]));
  assert.deepEqual(
    ['PyTorch', 'CUDA', 'NCCL', 'DeepSpeed', 'FlashAttention'].map((item) => stated[item]),
    ['2.4.0', '12.1', '2.18.1', '0.12.6', '2.5.8'],
  );
});

test('the table shows stated and found values; a variable that is set counts as found', async () => {
  const argv = ['doctor', '--document', 'accelerate-multinode'];
  const { status, stdout } = await shardlab(argv, { env: { ...BARE, NCCL_DEBUG: 'WARN' } });
  assert.equal(status, 0);
  assert.match(stdout, /^accelerate-multinode: Accelerate on 4 machines/);
  assert.match(stdout, /· NCCL_DEBUG +INFO +WARN +nothing\n +With this variable, NCCL prints/);
  assert.match(
    stdout,
    /✗ machines +4 +this one +cluster\n +Each machine starts its own agent[\s\S]*?shardlab\s+claims\s+acc\.per_machine/,
  );
  assert.match(stdout, /✗ GPUs .* no NVIDIA GPU +cluster/);
  assert.match(stdout, /· netcat +apt package +not on the PATH +nothing/);
});

test('--json has every part with what is here, what needs it, and why', async () => {
  for (const document of NAMES) {
    const { stdout } = await shardlab(['doctor', '--document', document, '--json'], { env: BARE });
    const answer = JSON.parse(stdout);
    assert.equal(answer.title, DOCUMENTS[document]);
    assert.equal(answer.parts.length, environmentOf(document).length);
    for (const part of answer.parts) {
      assert.ok(typeof part.here === 'string' && part.here !== '', part.item);
      assert.equal(typeof part.isPresent, 'boolean');
    }
  }
});

test('without an id, the documents are listed; an unknown id is bad input, with the list and the nearest', async () => {
  const list = await shardlab(['doctor', '--document']);
  for (const id of Object.keys(DOCUMENTS)) assert.match(list.stdout, new RegExp(`^${id} +\\S`, 'm'));
  for (const [wrong, near] of [
    ['wan22', 'wan22-fsdp'],
    ['acelerate-multinode', 'accelerate-multinode'],
  ] as const) {
    const { status, stderr } = await shardlab(['doctor', '--document', wrong]);
    assert.equal(status, 2);
    assert.match(stderr, new RegExp(`did you mean '${near}'\\? There are wan22-fsdp, fsdp-guide`));
  }
});

test('a document and an address at once are bad usage', async () => {
  const { status, stderr } = await shardlab(['doctor', '--document', 'fsdp-guide', '--reach', 'a:1']);
  assert.equal(status, 2);
  assert.match(stderr, /--reach and --document: each runs alone/);
});

test('probes: a port in use is not free, and too little memory or disk is not enough', async () => {
  const server = createServer().listen(0);
  await once(server, 'listening');
  // It listens on TCP, so its address is no name of a pipe.
  const { port } = server.address() as AddressInfo;
  const measured = await measureAll(
    [
      { kind: 'port', port },
      { kind: 'memory', least: 1 },
      { kind: 'memory', least: 1e18 },
      { kind: 'disk', least: 1e18 },
      { kind: 'machines', least: 1 },
      { kind: 'interface', name: 'nowhere7' },
      { kind: 'path', path: '.' },
    ],
    { env: BARE, cwd: '/' },
  );
  server.close();
  await once(server, 'close');
  assert.deepEqual(
    measured.map(({ isPresent }) => isPresent),
    [false, true, false, false, true, false, true],
  );
  assert.match(measured[0]?.here ?? '', /not free \(EADDRINUSE\)/);
});
