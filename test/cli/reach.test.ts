import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ACCELERATE_YAML } from '../../src/claims/accelerate-multinode/formulas';
import { shardlab } from './run-command';

const server = createServer();
const folder = mkdtempSync(join(tmpdir(), 'reach-'));
let open = 0;
let closed = 0;

before(async () => {
  const other = createServer();
  for (const each of [server, other]) {
    each.listen(0, '127.0.0.1');
    await once(each, 'listening');
  }
  // Both listen on TCP, so their addresses are no names of pipes.
  open = (server.address() as AddressInfo).port;
  closed = (other.address() as AddressInfo).port;
  other.close();
  await once(other, 'close');
});

after(() => {
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** An own address that is not loopback; undefined: this machine has no network. */
const OWN = Object.values(networkInterfaces())
  .flat()
  .find((info) => info?.family === 'IPv4' && !info.internal)?.address;

interface ReachCheck {
  readonly name: string;
  readonly status: string;
  readonly found: string;
  readonly advice?: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

async function reach(text: string, env: NodeJS.ProcessEnv = {}) {
  const { status, stdout } = await shardlab(['doctor', '--reach', text, '--json'], { cwd: folder, env });
  const { checks } = JSON.parse(stdout) as { checks: readonly ReachCheck[] };
  return { status, checks };
}

/** Writes the document's YAML with another address, number of this machine and port. */
function yaml(address: string, machine = 0, port = closed): string {
  const name = `machine-${machine}.yaml`;
  const text = ACCELERATE_YAML.replace('10.233.xx.xx', address)
    .replace('machine_rank: 0', `machine_rank: ${machine}`)
    .replace('12345', String(port));
  writeFileSync(join(folder, name), text);
  return name;
}

test('several addresses are tested, each with its own answer; one that does not answer gives status 1', async () => {
  const { status, checks } = await reach(`127.0.0.1:${open}, 127.0.0.1:${closed}`);
  assert.equal(status, 1);
  assert.deepEqual(
    checks.map(({ facts }) => [facts.port, facts.outcome]),
    [
      [open, 'open'],
      [closed, 'refused'],
    ],
  );
  assert.equal((await reach(`127.0.0.1:${open}`)).status, 0);
});

test('a refused connection means that machine 0 has not started, and the answer says so', async () => {
  const { checks } = await reach(`127.0.0.1:${closed}`);
  assert.match(checks[0]?.found ?? '', /refuses the connection \(ECONNREFUSED\)/);
  assert.match(checks[0]?.advice ?? '', /nothing listens on port \d+ .*: start machine 0 first/);
});

test("the document's masked address is named as a placeholder with its line, and nothing looks it up", async () => {
  const { status, checks } = await reach(yaml('10.233.xx.xx'));
  const [check] = checks;
  assert.equal(status, 1);
  assert.equal(check?.facts.outcome, 'placeholder');
  assert.match(check?.found ?? '', /not yet replaced by an address \(main_process_ip, machine-0\.yaml:\d+\)/);
  assert.match(check?.advice ?? '', /write the address of machine 0/);
});

test('loopback as the address of four machines is wrong, even if something answers there', async () => {
  const { status, checks } = await reach(yaml('127.0.0.1', 2, open));
  assert.equal(status, 1);
  assert.equal(checks[0]?.facts.outcome, 'open');
  assert.match(checks[0]?.advice ?? '', /every machine takes this address for its own/);
});

test('a file for machine 2 on the machine with the address of machine 0 is wrong', async (context) => {
  if (OWN === undefined) return context.skip('this machine has no network');
  const mixed = await reach(yaml(OWN, 2));
  assert.match(mixed.checks[1]?.found ?? '', /the file is for machine 2, but this machine has the address/);
  const right = await reach(yaml(OWN, 0));
  assert.deepEqual(
    right.checks.map(({ name }) => name),
    [`reach ${OWN}:${closed}`],
  );
  assert.match(right.checks[0]?.advice ?? '', /so it is machine 0, and nothing listens/);
});

test('a launch script gives its endpoint, with variables of the environment, and its network interface', async () => {
  writeFileSync(
    join(folder, 'launch.sh'),
    'export NCCL_SOCKET_IFNAME=nowhere7\n' +
      'torchrun --nnodes=4 --node-rank=$1 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$MAIN:29500 train.py\n',
  );
  const unset = await reach('launch.sh');
  assert.equal(unset.checks[0]?.facts.outcome, 'placeholder');
  const set = await reach('launch.sh', { MAIN: '127.0.0.1', GLOO_SOCKET_IFNAME: 'lo' });
  assert.deepEqual([set.checks[0]?.facts.host, set.checks[0]?.facts.port], ['127.0.0.1', 29_500]);
  const [nccl, gloo] = set.checks.slice(1);
  assert.match(nccl?.found ?? '', /nowhere7 \(NCCL_SOCKET_IFNAME, launch\.sh:1\) matches no interface/);
  assert.match(gloo?.found ?? '', /lo \(the environment\)/);
});

test("a hostfile of DeepSpeed gives each host's port of ssh", async () => {
  writeFileSync(join(folder, 'hostfile'), '# machines\n127.0.0.1 slots=8\n127.0.0.2 slots=8\n');
  const { checks } = await reach('hostfile');
  assert.deepEqual(
    checks.map(({ facts }) => [facts.host, facts.port, facts.service]),
    [
      ['127.0.0.1', 22, 'ssh'],
      ['127.0.0.2', 22, 'ssh'],
    ],
  );
});

test('an unknown name is named as such, or that no name server answers, within the stated time', async () => {
  const started = performance.now();
  const { checks } = await reach('no-such-machine.invalid:29500');
  assert.ok(performance.now() - started < 10_000);
  assert.match(String(checks[0]?.facts.outcome), /^(unknown name|silent name server)$/);
  assert.match(checks[0]?.advice ?? '', /write the address in place of the name/);
});

test('a text that is no address, a file without one, and too many addresses are bad input', async () => {
  const said = async (text: string): Promise<string> => {
    const { status, stderr } = await shardlab(['doctor', '--reach', text], { cwd: folder, env: {} });
    assert.equal(status, 2, text);
    return stderr;
  };
  for (const text of ['localhost', 'a.yaml', '10.0.0.1:1,', '']) {
    assert.match(await said(text), /neither an address nor a file; give HOST:PORT/);
  }
  for (const text of ['10.0.0.1:0', '10.0.0.1:70000', '[::1]:70000'])
    assert.match(await said(text), /a port is from 1 to 65535, not \d+/);
  writeFileSync(join(folder, 'one.yaml'), 'distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n');
  assert.match(await said('one.yaml'), /one\.yaml does not say where machines meet/);
  assert.match(await said(Array(65).fill('10.0.0.1:1').join(',')), /65 addresses are too many/);
});
