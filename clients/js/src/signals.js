// SIGTERM and SIGINT, where there are such.

// Calls `stop` at the first of them until the returned function is called. A second one ends the process as usual.
export function onSignals(stop) {
  const { process } = globalThis;
  if (typeof process?.once !== "function") return () => {};
  const names = ["SIGTERM", "SIGINT"];
  const off = () => names.forEach((name) => process.off(name, heard));
  const heard = () => {
    off();
    stop();
  };
  names.forEach((name) => process.once(name, heard));
  return off;
}
