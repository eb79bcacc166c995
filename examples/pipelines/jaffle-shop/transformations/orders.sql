-- One row for each order, with what was paid in which way. Orders and payments come in any order.
select
  order_id,
  max(customer_id) as customer_id,
  min(order_date) as order_date,
  max_by(status, version) as status,
  coalesce(sum(amount) filter (where payment_method = 'credit_card'), 0) as credit_card_amount,
  coalesce(sum(amount) filter (where payment_method = 'coupon'), 0) as coupon_amount,
  coalesce(sum(amount) filter (where payment_method = 'bank_transfer'), 0) as bank_transfer_amount,
  coalesce(sum(amount) filter (where payment_method = 'gift_card'), 0) as gift_card_amount,
  coalesce(sum(amount), 0) as amount
from (
  select order_id, customer_id, order_date, status, version, null as payment_method, null as amount from stg_orders
  union all
  select order_id, null, null, null, null, payment_method, amount from stg_payments
)
group by order_id
