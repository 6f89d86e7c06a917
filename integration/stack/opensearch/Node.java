import org.codelibs.opensearch.runner.OpenSearchRunner;

/** Runs one node of OpenSearch: Node FOLDER HTTP_PORT TRANSPORT_PORT. */
public class Node {
  public static void main(String[] args) throws Exception {
    OpenSearchRunner runner = new OpenSearchRunner();
    runner.setMaxHttpPort(-1); // the ports below are free already
    runner.onBuild((number, settings) -> {
      settings.put("http.port", args[1]);
      settings.put("transport.port", args[2]);
      settings.put("cluster.routing.allocation.disk.threshold_enabled", false); // other programs share the disk
      settings.put("cluster.max_shards_per_node", 10000); // each test has indexes of its own
    });
    try {
      runner.build(OpenSearchRunner.newConfigs().clusterName("stack").numOfNode(1).basePath(args[0]));
    } catch (Throwable e) {
      e.printStackTrace();
      System.exit(1); // threads of the node would keep the process running
    }
    Thread.currentThread().join();
  }
}
