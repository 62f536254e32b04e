const LEAST = [20, 19];

/** Ends the process with what to do where this Node is too old. Plain syntax: it must be readable by the old Node. */
export function checkNode(version = process.versions.node) {
  const [major, minor] = version.split('.').map(Number);
  if (major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1])) return;
  process.stderr.write(
    `Node ${version} is too old: shardlab needs Node ${LEAST.join('.')} or newer.\n` +
      '  → install a newer one from https://nodejs.org, or by nvm: nvm install 22\n',
  );
  process.exit(1);
}
