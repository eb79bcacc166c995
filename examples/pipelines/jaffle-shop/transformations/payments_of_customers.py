"""Each payment with the customer of its order. The first record of an order counts: it comes again when its status
changes."""

from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines import view


@view
def payments_of_customers(spark: SparkSession) -> DataFrame:
    orders = spark.table("stg_orders").select("order_id", "customer_id").dropDuplicates(["order_id"])
    return spark.table("stg_payments").join(orders, "order_id").select("payment_id", "customer_id", "amount")
