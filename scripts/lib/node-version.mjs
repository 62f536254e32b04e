const LEAST = [20, 19];

/** Ends the process with advice if this Node is too old. Its syntax is plain, because an old Node must parse it. */
export function checkNode(version = process.versions.node) {
  const [major, minor] = version.split('.').map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return;
  process.stderr.write(
    `Node ${version} is too old: shardlab needs Node ${LEAST.join('.')} or newer.\n` +
      '  → install a newer Node from https://nodejs.org, or with nvm: nvm install 22\n',
  );
  process.exit(1);
}
